// Pictures: intensities, capacities, plans, runs and savings. Each has its numbers in a table beside or below it.
import { at, count, grams, h, hours, number, svg } from './draw.js';

const hour = 3600e3;

// axis labels the hours of a picture that is wide pixels wide, from a start on: the hour, at midnight the date.
function axis(start, span, x, y, wide) {
  const step = [1, 2, 3, 6, 12, 24, 48, 96, 168, 336].find((s) => (s / span) * wide >= 70) || 744;
  const first = new Date(Math.ceil(new Date(start) / hour) * hour);
  const out = [];
  for (let t = first.getTime(); hours(start, t) <= span; t += hour) {
    const when = new Date(t);
    const fits = step <= 24 ? when.getUTCHours() % step === 0 : when.getUTCHours() === 0 && Math.floor(t / (24 * hour)) % (step / 24) === 0;
    if (fits) out.push(svg('text', { x: x(hours(start, t)), y, 'text-anchor': 'middle' }, when.getUTCHours() === 0 ? when.toISOString().slice(0, 10) : when.toISOString().slice(11, 16)));
  }
  return out;
}

const numbers = (points, unit) => h('details', {}, h('summary', {}, 'Numbers'), h('p', { class: 'soft' }, points.map((p) => `${at(p.from)} ${number(p.value)} ${unit}`).join('; ')));

// wide makes a picture scroll in a window that is narrower than its text needs.
const wide = (label, picture) => h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, picture);

// line draws intensities, hour by hour.
export function line(points, label) {
  if (points.length < 2) return null;
  const [W, H] = [420, 150];
  const start = points[0].from;
  const span = hours(start, points[points.length - 1].from) + 1;
  const most = Math.max(...points.map((p) => p.value), 1);
  const x = (t) => 36 + (t / span) * (W - 50);
  const y = (v) => 20 + (1 - v / most) * (H - 50);
  const path = points.map((p, i) => `${i ? 'L' : 'M'}${x(hours(start, p.from)).toFixed(1)} ${y(p.value).toFixed(1)}`).join('');
  const low = points.reduce((a, b) => (b.value < a.value ? b : a));
  return [
    svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `${label}: least ${Math.round(low.value)} at ${at(low.from)}, most ${Math.round(most)}` },
      svg('line', { class: 'axis', x1: 36, y1: y(0), x2: W - 14, y2: y(0) }), axis(start, span, x, H - 8, W - 50),
      svg('text', { x: 30, y: y(most) + 4, 'text-anchor': 'end' }, Math.round(most)), svg('text', { x: 30, y: y(0) + 4, 'text-anchor': 'end' }, '0'),
      svg('path', { class: 'intensity', d: path })),
    numbers(points, 'gCO2eq/kWh'),
  ];
}

// stairs draws capacities, each until the next.
export function stairs(points, most, label) {
  if (points.length < 2) return null;
  const [W, H] = [760, 200];
  const start = points[0].from;
  const span = hours(start, points[points.length - 1].from) + 1;
  const x = (t) => 60 + (t / span) * (W - 80);
  const y = (v) => 20 + (1 - v / most) * (H - 60);
  const last = points[points.length - 1];
  const path = steps(points.map((p, i) => ({ from: p.from, to: points[i + 1]?.from || new Date(new Date(last.from).getTime() + hour), value: p.value })), (t) => x(hours(start, t)), y);
  return [
    wide(label, svg('svg', { class: 'medium', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label },
      svg('line', { class: 'axis', x1: 60, y1: y(0), x2: W - 20, y2: y(0) }), axis(start, span, x, H - 14, W - 80),
      svg('text', { x: 54, y: y(most) + 4, 'text-anchor': 'end' }, number(most)), svg('path', { class: 'line', d: path }))),
    numbers(points, ''),
  ];
}

// steps is the path of values that each hold from one time to another; it breaks where there is no value.
function steps(values, x, y) {
  return values.map((v, i) => {
    const joined = i > 0 && new Date(values[i - 1].to).getTime() === new Date(v.from).getTime();
    return `${joined ? 'L' : 'M'}${x(v.from).toFixed(1)} ${y(v.value).toFixed(1)}L${x(v.to).toFixed(1)} ${y(v.value).toFixed(1)}`;
  }).join('');
}

// gantt draws when workloads are planned to run, under the intensity of a zone.
export function gantt(plans, zone) {
  const planned = plans.filter((p) => p.phases.length > 0);
  if (planned.length === 0) return null;
  const W = 1100;
  const times = planned.flatMap((p) => p.phases.flatMap((x) => [new Date(x.from), new Date(x.to)]));
  const start = new Date(Math.min(...times));
  const span = Math.min(168, Math.max(1, (Math.max(...times) - start) / hour));
  const top = zone && zone.forecast.length > 1 ? 110 : 20;
  const row = 18;
  const H = top + planned.length * row + 30;
  const left = 230;
  const x = (t) => left + (Math.max(0, Math.min(span, t)) / span) * (W - left - 20);
  const within = zone ? zone.forecast.filter((p) => hours(start, p.from) >= 0 && hours(start, p.from) <= span) : [];
  const most = Math.max(1, ...within.map((p) => p.value));
  const curve = within.map((p, i) => `${i ? 'L' : 'M'}${x(hours(start, p.from)).toFixed(1)} ${(100 - (p.value / most) * 85).toFixed(1)}`).join('');
  return wide('When workloads run', svg('svg', { class: 'plans', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `When ${planned.length} workloads are planned to run, from ${at(start)} on, ${Math.round(span)} hours` },
    within.length > 1 && [svg('path', { class: 'intensity', d: curve }), svg('text', { x: left - 8, y: 20, 'text-anchor': 'end' }, `${Math.round(most)} gCO2eq/kWh`), svg('text', { x: left - 8, y: 100, 'text-anchor': 'end' }, zone.name)],
    planned.map((p, i) => {
      const y = top + i * row;
      const name = `${p.namespace}/${p.name}`;
      return svg('g', {}, svg('text', { x: left - 8, y: y + 12, 'text-anchor': 'end' }, name.length > 32 ? `${name.slice(0, 31)}…` : name),
        svg('line', { class: 'axis', x1: left, y1: y + row - 2, x2: W - 20, y2: y + row - 2 }),
        p.phases.map((f) => {
          const from = x(hours(start, f.from));
          return svg('rect', { class: 'run', x: from, y: y + 2, width: Math.max(1, x(hours(start, f.to)) - from), height: row - 6 }, svg('title', {}, `${name}: ${at(f.from)} to ${at(f.to)}, ${count(f.workers, 'worker')}, ${Math.round(f.intensity)} gCO2eq/kWh`));
        }),
        p.deadline && hours(start, p.deadline) >= 0 && hours(start, p.deadline) <= span && svg('line', { class: 'deadline', x1: x(hours(start, p.deadline)), y1: y, x2: x(hours(start, p.deadline)), y2: y + row - 3 }));
    }),
    axis(start, span, x, H - 8, W - left - 20)));
}

// runSteps turns runs, which may overlap, into times with a number of workers. The last one has no end while something runs.
export function runSteps(runs) {
  const marks = runs.flatMap((r) => [[new Date(r.from).getTime(), r.workers], ...(r.to ? [[new Date(r.to).getTime(), -r.workers]] : [])]).sort((a, b) => a[0] - b[0]);
  const out = [];
  let workers = 0;
  marks.forEach(([t, n], i) => {
    workers += n;
    const next = marks[i + 1]?.[0];
    if (workers === 0 || next === t) return;
    const last = out[out.length - 1];
    if (last && last.workers === workers && last.to === new Date(t).toISOString()) last.to = next ? new Date(next).toISOString() : null;
    else out.push({ from: new Date(t).toISOString(), to: next ? new Date(next).toISOString() : null, workers });
  });
  return out;
}

// meanIntensity is the mean over a time, by what is known of it; null if that is nothing.
export function meanIntensity(values, from, to) {
  const end = to ? new Date(to) : new Date(8.64e15);
  let [sum, time] = [0, 0];
  for (const v of values) {
    const part = Math.max(0, Math.min(new Date(v.to), end) - Math.max(new Date(v.from), new Date(from)));
    sum += part * v.value;
    time += part;
  }
  return time > 0 ? sum / time : null;
}

// timeline draws a workload over the intensity of its zone: when it ran, when it is planned to run, and when it would have run as
// submitted.
export function timeline(story, settled) {
  const p = story.plan;
  const ran = runSteps(story.runs);
  const values = story.intensities[0]?.values || [];
  const as = settled?.counterfactual;
  const submitted = story.entries.find((e) => e.kind === 'submitted')?.body;
  const times = [...ran.flatMap((s) => [s.from, s.to]), ...p.phases.flatMap((f) => [f.from, f.to]), ...(as ? [as.from, as.to] : []), submitted?.at].filter((t) => t && !String(t).startsWith('0001')).map((t) => new Date(t).getTime());
  if (times.length < 2 || Math.min(...times) === Math.max(...times)) return null;
  const narrow = window.innerWidth < 700;
  const [W, left, right] = narrow ? [400, 80, 28] : [1100, 110, 20];
  const first = Math.floor(Math.min(...times) / hour) * hour;
  const deadline = p.deadline ? new Date(p.deadline).getTime() : NaN;
  const end = Math.ceil(Math.max(...times) / hour) * hour;
  const last = deadline > end && deadline - end < (end - first) ? deadline : end;
  const span = (last - first) / hour;
  const x = (t) => left + (Math.max(0, Math.min(span, hours(first, t))) / span) * (W - left - right);
  const most = Math.max(1, ...values.map((v) => v.value));
  const y = (v) => 130 - (v / most) * 105;
  const clipped = values.filter((v) => new Date(v.to) > first && new Date(v.from) < last);
  const shade = (from, to, name) => svg('rect', { class: name, x: x(from), y: 20, width: Math.max(1, x(to || last) - x(from)), height: 110 });
  const rows = [];
  const row = (label, kind, list) => { if (list.length > 0) rows.push({ label, kind, list }); };
  row('ran', 'run', ran.map((s) => ({ ...s, to: s.to || new Date(last).toISOString(), text: count(s.workers, 'worker') })));
  row('planned', 'planned', p.phases.map((f) => ({ from: f.from, to: f.to, text: `${count(f.workers, 'worker')}, ${Math.round(f.intensity)} gCO2eq/kWh` })));
  if (as && !String(as.from).startsWith('0001') && as.from !== as.to) row('as submitted', 'other', [{ from: as.from, to: as.to, text: grams(as.grams) }]);
  const H = 150 + rows.length * 26 + 24;
  const label = `${p.namespace}/${p.name} over the carbon intensity${story.intensities[0] ? ` of ${story.intensities[0].zone}` : ''}, from ${at(first)} on, ${Math.round(span)} hours: ${rows.map((r) => r.label).join(', ')}`;
  return [
    wide('When it ran', svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label },
      ran.map((s) => shade(s.from, s.to, 'over')),
      svg('line', { class: 'axis', x1: left, y1: y(0), x2: W - right, y2: y(0) }),
      clipped.length > 0 && [
        svg('path', { class: 'intensity', d: steps(clipped.filter((v) => !v.forecast), x, y) }), svg('path', { class: 'intensity forecast', d: steps(clipped.filter((v) => v.forecast), x, y) }),
        svg('text', { x: left - 8, y: y(most) + 4, 'text-anchor': 'end' }, `${Math.round(most)} g/kWh`), svg('text', { x: left - 8, y: y(0) + 4, 'text-anchor': 'end' }, '0')],
      rows.map((r, i) => svg('g', {}, svg('text', { x: left - 8, y: 162 + i * 26, 'text-anchor': 'end' }, r.label),
        r.list.map((b) => svg('rect', { class: r.kind, x: x(b.from), y: 150 + i * 26, width: Math.max(2, x(b.to) - x(b.from)), height: 18 }, svg('title', {}, `${r.label}: ${at(b.from)} to ${at(b.to)}, ${b.text}`))))),
      deadline <= last && [svg('line', { class: 'deadline', x1: x(deadline), y1: 20, x2: x(deadline), y2: H - 24 }), svg('text', { x: x(deadline), y: 14, 'text-anchor': x(deadline) > W - 80 ? 'end' : 'middle' }, 'deadline')],
      axis(first, span, (t) => x(first + t * hour), H - 6, W - left - right))),
    clipped.length === 0 && h('p', { class: 'soft' }, 'The carbon intensity of these hours is not known here.'),
    clipped.length > 0 && h('p', { class: 'soft' }, `Carbon intensity of ${story.intensities[0].zone}: published${clipped.some((v) => v.forecast) ? ', dashed where it is a forecast' : ''}. It ran in the shaded hours.`),
  ];
}

// bars draws what was emitted in each day or month, before what it would have been as submitted, with its uncertainty. The table below it
// has the numbers.
export function bars(list, unit) {
  if (list.length < 2) return null;
  const [W, H, left, bottom] = [760, 200, 70, 30];
  const most = Math.max(...list.map((d) => Math.max(d.gCO2eq + d.uncertainGCO2eq, d.asSubmittedGCO2eq)), 1e-9);
  const each = Math.min(80, (W - left - 10) / list.length);
  const y = (v) => 15 + (1 - v / most) * (H - bottom - 15);
  const bar = (name, i, v, inset) => svg('rect', { class: name, x: left + i * each + inset, y: y(v), width: Math.max(1, each - 2 * inset), height: y(0) - y(v) });
  const every = Math.ceil(list.length / Math.floor((W - left - 10) / 70));
  const middle = (i) => left + (i + 0.5) * each;
  const label = `Emissions of ${list.length} ${unit}s, ${list[0].name} to ${list[list.length - 1].name}, before what they would have been as submitted`;
  return wide(label, svg('svg', { class: 'medium', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label },
    svg('line', { class: 'axis', x1: left, y1: y(0), x2: W - 10, y2: y(0) }), svg('text', { x: left - 6, y: y(most) + 4, 'text-anchor': 'end' }, grams(most)),
    list.map((d, i) => svg('g', {}, svg('title', {}, `${d.name}: ${grams(d.gCO2eq)} ± ${grams(d.uncertainGCO2eq)}, as submitted ${grams(d.asSubmittedGCO2eq)}`),
      bar('waiting', i, d.asSubmittedGCO2eq, each * 0.1), bar('run', i, d.gCO2eq, each * 0.25),
      d.uncertainGCO2eq > 0 && svg('line', { class: 'uncertain', x1: middle(i), x2: middle(i), y1: y(Math.max(0, d.gCO2eq - d.uncertainGCO2eq)), y2: y(d.gCO2eq + d.uncertainGCO2eq) }),
      i % every === 0 && svg('text', { x: Math.min(middle(i), W - 34), y: H - 10, 'text-anchor': 'middle' }, d.name)))));
}
