// Pictures: intensities, capacities, plans. Each has its numbers in a table beside or below it.
import { h, svg, at, hours, number } from './draw.js';

const W = 1100;
const two = (n) => String(n).padStart(2, '0');

// axis labels the hours of a picture.
function axis(start, span, x, y) {
  const out = [];
  const step = span <= 30 ? 6 : span <= 80 ? 12 : 24;
  const first = new Date(start);
  const offset = (step - (first.getUTCHours() % step)) % step;
  for (let t = offset; t <= span; t += step) {
    const when = new Date(first.getTime() + t * 3600e3);
    const text = when.getUTCHours() === 0 ? `${when.getUTCDate()}.${when.getUTCMonth() + 1}.` : `${two(when.getUTCHours())}:00`;
    out.push(svg('text', { x: x(t), y, 'text-anchor': 'middle' }, text));
  }
  return out;
}

const numbers = (points, unit) => h('details', {}, h('summary', {}, 'Numbers'), h('p', { class: 'soft' }, points.map((p) => `${at(p.from)} ${number(p.value)} ${unit}`).join('; ')));

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
      svg('line', { class: 'axis', x1: 36, y1: y(0), x2: W - 14, y2: y(0) }), axis(start, span, x, H - 8),
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
  let path = '';
  points.forEach((p, i) => {
    const from = x(hours(start, p.from)).toFixed(1);
    path += `${i ? 'L' : 'M'}${from} ${y(i ? points[i - 1].value : p.value).toFixed(1)}L${from} ${y(p.value).toFixed(1)}`;
  });
  path += `L${x(span).toFixed(1)} ${y(points[points.length - 1].value).toFixed(1)}`;
  return [
    svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label },
      svg('line', { class: 'axis', x1: 60, y1: y(0), x2: W - 20, y2: y(0) }), axis(start, span, x, H - 14),
      svg('text', { x: 54, y: y(most) + 4, 'text-anchor': 'end' }, number(most)), svg('path', { class: 'line', d: path })),
    numbers(points, ''),
  ];
}

// gantt draws when workloads are planned to run, under the intensity of a zone.
export function gantt(plans, zone) {
  const planned = plans.filter((p) => p.phases.length > 0);
  if (planned.length === 0) return null;
  const times = planned.flatMap((p) => p.phases.flatMap((x) => [new Date(x.from), new Date(x.to)]));
  const start = new Date(Math.min(...times));
  const span = Math.min(168, Math.max(1, (Math.max(...times) - start) / 3600e3));
  const top = zone && zone.forecast.length > 1 ? 110 : 20;
  const row = 18;
  const H = top + planned.length * row + 30;
  const left = 230;
  const x = (t) => left + (Math.max(0, Math.min(span, t)) / span) * (W - left - 20);
  const within = zone ? zone.forecast.filter((p) => hours(start, p.from) >= 0 && hours(start, p.from) <= span) : [];
  const most = Math.max(1, ...within.map((p) => p.value));
  const curve = within.map((p, i) => `${i ? 'L' : 'M'}${x(hours(start, p.from)).toFixed(1)} ${(100 - (p.value / most) * 85).toFixed(1)}`).join('');
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'When workloads run' }, svg('svg', { class: 'plans', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `When ${planned.length} workloads are planned to run, from ${at(start)} on, ${Math.round(span)} hours` },
    within.length > 1 && [svg('path', { class: 'intensity', d: curve }), svg('text', { x: left - 8, y: 20, 'text-anchor': 'end' }, `${Math.round(most)} gCO2eq/kWh`), svg('text', { x: left - 8, y: 100, 'text-anchor': 'end' }, zone.name)],
    planned.map((p, i) => {
      const y = top + i * row;
      const name = `${p.namespace}/${p.name}`;
      return svg('g', {}, svg('text', { x: left - 8, y: y + 12, 'text-anchor': 'end' }, name.length > 32 ? `${name.slice(0, 31)}…` : name),
        svg('line', { class: 'axis', x1: left, y1: y + row - 2, x2: W - 20, y2: y + row - 2 }),
        p.phases.map((f) => {
          const from = x(hours(start, f.from));
          return svg('rect', { class: 'run', x: from, y: y + 2, width: Math.max(1, x(hours(start, f.to)) - from), height: row - 6 }, svg('title', {}, `${name}: ${at(f.from)} to ${at(f.to)}, ${f.workers} workers, ${Math.round(f.intensity)} gCO2eq/kWh`));
        }),
        p.deadline && hours(start, p.deadline) >= 0 && hours(start, p.deadline) <= span && svg('line', { class: 'deadline', x1: x(hours(start, p.deadline)), y1: y, x2: x(hours(start, p.deadline)), y2: y + row - 3 }));
    }),
    axis(start, span, x, H - 8)));
}

// days draws what was emitted each day, before what it would have been as submitted. The table below it has the
// numbers.
export function days(list, grams) {
  if (list.length < 2) return null;
  const [W, H, left, bottom] = [760, 200, 70, 30];
  const most = Math.max(...list.map((d) => Math.max(d.gCO2eq, d.asSubmittedGCO2eq)), 1e-9);
  const wide = (W - left - 10) / list.length;
  const y = (v) => 15 + (1 - v / most) * (H - bottom - 15);
  const bar = (name, i, v, inset) => svg('rect', { class: name, x: left + i * wide + inset, y: y(v), width: Math.max(1, wide - 2 * inset), height: y(0) - y(v) });
  const every = Math.ceil(list.length / 10);
  return svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `Emissions of ${list.length} days, ${list[0].name} to ${list[list.length - 1].name}, before what they would have been as submitted` },
    svg('line', { class: 'axis', x1: left, y1: y(0), x2: W - 10, y2: y(0) }), svg('text', { x: left - 6, y: y(most) + 4, 'text-anchor': 'end' }, grams(most)),
    list.map((d, i) => svg('g', {}, svg('title', {}, `${d.name}: ${grams(d.gCO2eq)}, as submitted ${grams(d.asSubmittedGCO2eq)}`),
      bar('waiting', i, d.asSubmittedGCO2eq, wide * 0.1), bar('run', i, d.gCO2eq, wide * 0.25),
      i % every === 0 && svg('text', { x: left + (i + 0.5) * wide, y: H - 10, 'text-anchor': 'middle' }, d.name.slice(5)))));
}
