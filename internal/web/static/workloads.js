// Workloads with their plans, and the story of one.
import { at, count, empty, grams, h, hours, number, share, table, workloadLink } from './draw.js';
import { gantt, meanIntensity, runSteps, timeline } from './pictures.js';

const pageSize = 50;
const states = [['', 'any'], ['Waits', 'waits'], ['Waiting', 'waits for its start'], ['Paused', 'is paused'], ['Running', 'runs'], ['Finished', 'has finished']];

function filterForm(query, to) {
  const field = (label, input) => h('label', {}, label, input);
  const form = h('form', { onsubmit: (e) => { e.preventDefault(); location.hash = to({ ...Object.fromEntries(new FormData(form)), offset: '' }); } },
    field('Name', h('input', { name: 'text', value: query.get('text') || '', type: 'search' })),
    field('Namespace', h('input', { name: 'namespace', value: query.get('namespace') || '' })),
    field('State', h('select', { name: 'state' }, states.map(([s, text]) => h('option', { value: s, selected: s === (query.get('state') || '') ? '' : null }, text)))),
    field('Reason', h('input', { name: 'reason', value: query.get('reason') || '' })),
    h('button', {}, 'Show'));
  return form;
}

export async function workloads(fetchJSON, query) {
  const offset = Number(query.get('offset') || 0);
  const params = new URLSearchParams({ limit: pageSize, offset });
  const filters = ['namespace', 'state', 'reason', 'text'].filter((key) => query.get(key));
  for (const key of filters) params.set(key, query.get(key));
  const [page, { zones }] = await Promise.all([fetchJSON(`api/plans?${params}`), fetchJSON('api/overview')]);
  const to = (changes) => {
    const next = new URLSearchParams(query);
    for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
    return `#/workloads?${next}`;
  };
  const last = Math.min(page.total, offset + page.items.length);
  return [
    h('h2', {}, 'Workloads'), filterForm(query, to),
    page.total === 0 ? empty(filters.length > 0 ? 'No workload fits.' : 'Lull governs no workload yet. A CarbonPolicy says which workloads it governs.')
      : h('p', { class: 'soft' }, `${offset + 1} to ${last} of ${page.total}, the earliest deadline first`),
    gantt(page.items, zones[0]),
    table('Workloads', ['workload', 'state', '#workers', 'deadline', '#emits', '#saves', 'why'], page.items.map((p) => [
      workloadLink(p), p.state, p.workers, p.deadline ? at(p.deadline) : 'may not wait', p.expectedG === null ? 'unknown' : grams(p.expectedG), share(p.expectedG, p.baselineG), p.message]), ['why']),
    h('p', {}, offset > 0 && h('a', { href: to({ offset: Math.max(0, offset - pageSize) || '' }) }, 'Before'), ' ', last < page.total && h('a', { href: to({ offset: offset + pageSize }) }, 'Next')),
  ];
}

// settledText says what came of a workload.
function settledText(b) {
  const figures = b.withheld || b.missingSeconds > 0 ? `emissions withheld: ${b.withheld || 'hours without a known carbon intensity were left out'}`
    : `${grams(b.grams)} CO2eq; as submitted, from ${at(b.counterfactual.from)} to ${at(b.counterfactual.to)}, ${grams(b.counterfactual.grams)}: saved ${grams(b.savedGrams)}`;
  return `settled, revision ${b.revision}: ${number(b.kWh)} kWh; ${figures}`;
}

// describe returns the time of an entry of the ledger, and what it says.
function describe(e) {
  const b = e.body;
  switch (e.kind) {
    case 'submitted': return [b.at, `submitted: ${count(b.workers, 'worker')}, ${b.deadline.startsWith('0001') ? 'may not wait' : `deadline ${at(b.deadline)}`}${b.heldOut ? ', held out' : ''}`];
    case 'decided': return [b.at, `${b.verb} (${b.reason}): ${b.message}`];
    case 'started': return [b.at, `a run starts: ${b.node || b.cluster}, ${number(b.watts)} W`];
    case 'ended': return [b.at, `a run ends (${b.how})`];
    case 'energy': return [b.to, `${number(b.kWh)} kWh measured by ${b.source}`];
    case 'finished': return [b.at, `is over (${b.how})`];
    case 'settled': return [b.to, settledText(b)];
    default: return [e.at, e.kind];
  }
}

// emissions says what a workload emits and saves: by the ledger once it is settled, before by its plan.
function emissions(p, settled) {
  if (settled && !settled.withheld) {
    const uncertain = settled.uncertainty * Math.abs(settled.savedGrams);
    return `${grams(settled.grams)} CO2eq, ${grams(settled.counterfactual.grams)} as submitted: saved ${grams(settled.savedGrams)} ± ${grams(uncertain)} (${share(settled.grams, settled.counterfactual.grams) || 'nothing'})`;
  }
  if (p.unpricedKWh > 0) return `Emissions are withheld: ${number(p.unpricedKWh)} of ${number(p.energyKWh)} kWh were used in hours without a carbon intensity.`;
  if (p.expectedG === null) return `${grams(p.emittedG)} CO2eq so far; the carbon intensity of the remaining work is not known.`;
  return `${grams(p.emittedG)} CO2eq so far, ${grams(p.expectedG)} expected, ${grams(p.baselineG)} at once${p.baselineG > 0 ? `: saves ${share(p.expectedG, p.baselineG)}` : ''}`;
}

function whenItRan(story) {
  const values = story.intensities[0]?.values || [];
  const rows = runSteps(story.runs).map((s) => {
    const mean = meanIntensity(values, s.from, s.to);
    return [at(s.from), s.to ? at(s.to) : 'runs', number(hours(s.from, s.to || new Date())), s.workers, mean === null ? 'unknown' : Math.round(mean)];
  });
  return rows.length > 0 && [h('h3', {}, 'When it ran'), table('When it ran', ['from', 'to', '#hours', '#workers', '#gCO2eq/kWh'], rows)];
}

// workload draws one workload. uid says which of several of its name; '' is the one that there is, or the last one.
export async function workload(fetchJSON, namespace, name, uid) {
  const story = await fetchJSON(`api/workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${uid ? `?uid=${encodeURIComponent(uid)}` : ''}`);
  const p = story.plan;
  const settled = story.entries.findLast((e) => e.kind === 'settled')?.body;
  return [
    h('h2', {}, `${p.kind} ${p.namespace}/${p.name}`),
    h('p', {}, h('span', { class: 'big' }, p.state), h('span', { class: 'soft' }, ` policy ${p.policy}, ${p.state === 'Finished' ? '' : `${count(p.workers, 'worker')}, ${(100 * p.progress).toFixed(0)} % done, `}deadline ${p.deadline ? at(p.deadline) : 'none: it may not wait'}`)),
    h('p', {}, p.message),
    h('p', { class: 'soft' }, emissions(p, settled)),
    timeline(story, settled),
    whenItRan(story),
    p.phases.length > 0 && [h('h3', {}, 'Plan'), table('Plan', ['from', 'to', '#workers', '#gCO2eq/kWh', 'cluster'], p.phases.map((x) => [at(x.from), at(x.to), x.workers, Math.round(x.intensity), x.cluster || '']))],
    h('h3', {}, 'Story'),
    story.unreadable > 0 && h('p', { class: 'bad' }, `${count(story.unreadable, 'entry', 'entries')} of the ledger cannot be decoded and ${story.unreadable === 1 ? 'is' : 'are'} left out.`),
    story.entries.length === 0 ? empty('The ledger has no entry of this workload, or there is no ledger.')
      : h('ol', { class: 'story' }, story.entries.map(describe).map(([when, text]) => h('li', {}, h('time', { datetime: when }, at(when)), h('span', {}, text)))),
  ];
}
