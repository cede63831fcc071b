// The page: views by the hash of the address, drawn anew when the server tells of changes.
import { h, at, grams, number, table } from './draw.js';
import { days, gantt, line, stairs } from './pictures.js';

const main = document.getElementById('main');
const state = document.getElementById('state');

async function ask(path) {
  const answer = await fetch(path);
  const body = answer.headers.get('Content-Type')?.startsWith('application/json') ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Error(body.error || `${answer.status} ${answer.statusText}`);
  return body;
}

const saving = (expected, baseline) => (baseline > 0 ? `${Math.round(100 * (1 - expected / baseline))} %` : '');

async function zones() {
  const { zones, policies } = await ask('api/overview');
  return [
    h('h2', {}, 'Zones'),
    zones.length === 0 && h('p', {}, 'There is no GridZone yet.'),
    h('div', { class: 'cards' }, zones.map((z) => h('section', { class: 'card', 'aria-label': `Zone ${z.name}` },
      h('h3', {}, z.name, h('span', { class: 'soft' }, ` ${z.grid}`)),
      h('p', { class: 'big' }, z.intensity === null ? 'unknown' : `${Math.round(z.intensity)}`, h('span', { class: 'soft' }, ' gCO2eq/kWh ', z.trend)),
      z.problem ? h('p', { class: 'bad' }, z.problem) : h('p', { class: 'soft' }, [z.basis, z.source, z.age && `${z.age} old`, z.stale && 'stale'].filter(Boolean).join(' · ')),
      line(z.forecast, `Intensity of ${z.name} in the hours to come`)))),
    h('h2', {}, 'Policies'),
    table('Policies', ['policy', 'zone', 'planner', '#waiting', '#running', '#finished', '#expected', '#saves', 'state'], policies.map((p) => [
      h('a', { href: `#/plans?namespace=${encodeURIComponent(p.namespace)}` }, `${p.namespace}/${p.name}`), p.zone, p.planner, p.waiting, p.running, p.finished,
      grams(p.expectedG), saving(p.expectedG, p.baselineG), p.problem ? h('span', { class: 'bad' }, p.problem) : 'ready'])),
  ];
}

async function plans(query) {
  const limit = 50;
  const offset = Number(query.get('offset') || 0);
  const params = new URLSearchParams({ limit, offset });
  for (const key of ['namespace', 'state', 'text']) if (query.get(key)) params.set(key, query.get(key));
  const [page, { zones }] = await Promise.all([ask(`api/plans?${params}`), ask('api/overview')]);
  const to = (changes) => {
    const next = new URLSearchParams(query);
    for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
    return `#/plans?${next}`;
  };
  const field = (name, label, input) => h('label', {}, label, input);
  const form = h('form', { onsubmit: (e) => { e.preventDefault(); const f = new FormData(form); location.hash = to({ ...Object.fromEntries(f), offset: '' }); } },
    field('text', 'Name', h('input', { name: 'text', value: query.get('text') || '', type: 'search' })),
    field('namespace', 'Namespace', h('input', { name: 'namespace', value: query.get('namespace') || '' })),
    field('state', 'State', h('select', { name: 'state' }, ['', 'Waiting', 'Running', 'Paused', 'Finished'].map((s) => h('option', { value: s, selected: s === (query.get('state') || '') ? '' : null }, s || 'any')))),
    h('button', {}, 'Show'));
  const last = Math.min(page.total, offset + page.items.length);
  return [
    h('h2', {}, 'Plans'), form,
    h('p', { class: 'soft' }, page.total === 0 ? 'No workload fits.' : `${offset + 1} to ${last} of ${page.total}, the earliest deadline first`),
    gantt(page.items, zones[0]),
    table('Plans', ['workload', 'state', '#workers', 'deadline', '#expected', '#saves', 'why'], page.items.map((p) => [
      h('a', { href: `#/workloads/${p.namespace}/${p.kind.toLowerCase()}-${p.name}` }, `${p.namespace}/${p.name}`), p.state, p.workers, p.deadline ? at(p.deadline) : 'may not wait',
      grams(p.expectedG), saving(p.expectedG, p.baselineG), p.message]), ['why']),
    h('p', {}, offset > 0 && h('a', { href: to({ offset: Math.max(0, offset - limit) || '' }) }, 'Before'), ' ', last < page.total && h('a', { href: to({ offset: offset + limit }) }, 'Next')),
  ];
}

async function capacity() {
  const { curves } = await ask('api/overview');
  return [
    h('h2', {}, 'Capacity'),
    curves.length === 0 && h('p', {}, 'There is no CapacityCurve.'),
    curves.map((c) => h('section', { class: 'card', 'aria-label': `Curve ${c.name}` },
      h('h3', {}, c.name), c.problem && h('p', { class: 'bad' }, c.problem),
      h('p', {}, h('span', { class: 'big' }, number(c.capacity)), h('span', { class: 'soft' }, ` of ${number(c.maximum)} ${c.resource}; ${number(c.used)} in use, ${number(c.waiting)} wait`)),
      h('p', { class: 'soft' }, c.message),
      stairs(c.ahead, c.maximum, `Capacity of ${c.name} in the hours to come`))),
  ];
}

async function savings() {
  const s = await ask('api/savings');
  if (!s.ledger) return [h('h2', {}, 'Savings'), h('p', {}, 'There is no ledger (lull controller --ledger, lull serve --ledger).')];
  if (s.problem) return [h('h2', {}, 'Savings'), h('p', { class: 'bad' }, s.problem)];
  const t = s.of.all;
  if (t.workloads === 0) return [h('h2', {}, 'Savings'), h('p', {}, 'Nothing is settled yet: workloads are, in the order of their submission, once they are over and intensities are published.')];
  const row = (x) => [x.name, x.workloads, number(x.kWh), grams(x.gCO2eq), grams(x.asSubmittedGCO2eq), grams(x.savedGCO2eq), saving(x.gCO2eq, x.asSubmittedGCO2eq), number(x.delayHours), x.late];
  const recent = (s.of.days || []).slice(-60);
  const head = ['', '#workloads', '#kWh', '#emitted', '#as submitted', '#saved', '#saved, %', '#delay, h', '#late'];
  return [
    h('h2', {}, 'Savings'),
    h('p', { class: 'big' }, grams(t.savedGCO2eq), h('span', { class: 'soft' }, ` CO2eq saved of ${grams(t.asSubmittedGCO2eq)}, by ${t.workloads} workloads, give or take ${grams(t.uncertainGCO2eq)}`)),
    h('p', { class: 'soft' }, `Of the workloads settled in the last ${s.days} days${s.older ? `, without the ${s.older} oldest of them, which are too many for a page` : ''}; lull report has all.`),
    t.withheld > 0 && h('p', { class: 'bad' }, `Emissions and savings of ${t.withheld} of ${t.workloads} workloads are withheld: they have hours without a known carbon intensity, or a figure that no workload has.`),
    t.filledHours > 0 && h('p', { class: 'soft' }, `${number(t.filledHours)} hours without a known carbon intensity take the value of the same hour of another day.`),
    days(recent, grams),
    table('By policy', head, (s.of.groups || []).map(row)),
    table('By the day', head, recent.map(row)),
  ];
}

// told is what an entry of the ledger says.
function told(e) {
  const b = e.body;
  switch (e.kind) {
    case 'submitted': return [b.at, `submitted: ${b.workers} workers, ${b.deadline.startsWith('0001') ? 'may not wait' : `to be done by ${at(b.deadline)}`}${b.heldOut ? ', held out' : ''}`];
    case 'decided': return [b.at, `${b.verb} (${b.reason}): ${b.message}`];
    case 'started': return [b.at, `runs: ${b.node || b.cluster}, ${number(b.watts)} W`];
    case 'ended': return [b.at, `a run ends (${b.how})`];
    case 'energy': return [b.to, `${number(b.kWh)} kWh measured by ${b.source}`];
    case 'finished': return [b.at, `is over (${b.how})`];
    case 'settled': return [b.to, `settled, revision ${b.revision}: ${number(b.kWh)} kWh; ${b.withheld || b.missingSeconds > 0 ? `emissions withheld: ${b.withheld || 'hours without a known carbon intensity were left out'}` : `${grams(b.grams)} CO2eq; as submitted, from ${at(b.counterfactual.from)} to ${at(b.counterfactual.to)}, ${grams(b.counterfactual.grams)}: saved ${grams(b.savedGrams)}`}`];
    default: return [e.at, e.kind];
  }
}

async function workload(namespace, name) {
  const { plan: p, entries } = await ask(`api/workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
  return [
    h('h2', {}, `${p.kind} ${p.namespace}/${p.name}`),
    h('p', {}, h('span', { class: 'big' }, p.state), h('span', { class: 'soft' }, ` policy ${p.policy}, ${p.workers} workers, ${(100 * p.progress).toFixed(0)} % done, deadline ${p.deadline ? at(p.deadline) : 'none: it may not wait'}`)),
    h('p', {}, p.message),
    h('p', { class: 'soft' }, p.unpricedKWh > 0 ? `Emissions are withheld: ${number(p.unpricedKWh)} of ${number(p.energyKWh)} kWh were used in hours without a carbon intensity.` : `${grams(p.emittedG)} CO2eq so far, ${grams(p.expectedG)} expected, ${grams(p.baselineG)} at once${p.baselineG > 0 ? `: saves ${saving(p.expectedG, p.baselineG)}` : ''}`),
    gantt([p]),
    p.phases.length > 0 && table('Plan', ['from', 'to', '#workers', '#gCO2eq/kWh', 'cluster'], p.phases.map((x) => [at(x.from), at(x.to), x.workers, Math.round(x.intensity), x.cluster || ''])),
    h('h3', {}, 'Story'),
    entries.length === 0 ? h('p', { class: 'soft' }, 'The ledger has nothing of it, or there is none.')
      : h('ol', { class: 'story' }, entries.map(told).map(([when, text]) => h('li', {}, h('time', { datetime: when }, at(when)), h('span', {}, text)))),
  ];
}

let shown = '';
async function show(moved) {
  const [path, query] = (location.hash.slice(1) || '/').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  const views = { '': zones, plans: () => plans(new URLSearchParams(query)), capacity, savings, workloads: () => workload(parts[1], parts[2]) };
  const name = parts[0] || '';
  const mine = location.hash;
  try {
    const content = await (views[name] || (async () => [h('p', {}, 'There is no such page.')]))();
    if (location.hash !== mine) return; // another page was asked for meanwhile
    if (!moved && main.contains(document.activeElement) && ['INPUT', 'SELECT'].includes(document.activeElement.tagName)) return;
    const focused = !moved && document.activeElement?.getAttribute?.('href');
    main.replaceChildren(...content.flat().filter(Boolean));
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    state.textContent = `as of ${new Date().toLocaleTimeString()}`;
    state.className = '';
  } catch (e) {
    state.textContent = e.message;
    state.className = 'bad';
    if (moved) main.replaceChildren(h('p', { class: 'bad' }, e.message));
  }
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === `#/${name}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  if (moved && shown !== '') main.focus();
  shown = mine || '#/';
}

window.addEventListener('hashchange', () => show(true));
const changes = new EventSource('api/changes');
changes.addEventListener('changed', () => show(false));
changes.onerror = () => { state.textContent = 'no connection; trying again'; state.className = 'bad'; };
changes.onopen = () => show(false);
show(true);
