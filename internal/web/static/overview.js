// The first page: whether anything is wrong, what waits and why, what that will save, and what was saved.
import { at, card, count, empty, grams, h, plusMinus, share, table } from './draw.js';

const maxProblems = 20;

// savedCard draws what was saved in the month of a time.
function savedCard(s, now) {
  const name = now.slice(0, 7);
  const title = `Saved in ${name}`;
  if (!s.ledger) return card(title, 'unknown', ['There is no ledger. Start ', h('code', {}, 'lull serve'), ' or the controller with ', h('code', {}, '--ledger'), '.']);
  const months = s.months.filter((m) => m.name === name);
  if (months.length === 0) return card(title, 'nothing yet', ['No workload that ended in this month is settled. ', h('a', { href: '#/savings' }, 'Earlier months')]);
  return months.map((m) => card(months.length > 1 ? `${title} (${m.signal} ${m.factor})` : title, plusMinus(m.savedGCO2eq, m.savedUncertainGCO2eq), [
    `CO2eq of ${grams(m.asSubmittedGCO2eq)} as submitted`, m.asSubmittedGCO2eq > 0 && `: ${share(m.gCO2eq, m.asSubmittedGCO2eq)}`, `; ${count(m.workloads, 'workload')}`,
    m.withheld > 0 && `; ${m.withheld} of unknown emissions left out`, '. ', h('a', { href: '#/savings' }, 'Savings')]));
}

function stateCard(o) {
  const works = o.programs.map((p) => `${p.name}: ${p.message}`).join('; ');
  if (o.problems.length > 0) return card('State', count(o.problems.length, 'problem'), 'See the list below.', true);
  if (o.zones.length === 0 || o.policies.length === 0) return card('State', 'not set up', works || 'There is no GridZone, or no CarbonPolicy.');
  return card('State', 'nothing is wrong', works || 'Zones, policies and workloads are as they should be.');
}

function problems(list) {
  if (list.length === 0) return null;
  const link = (p) => (p.reason ? h('a', { href: `#/workloads?reason=${encodeURIComponent(p.reason)}` }, p.object) : p.object);
  return [
    h('h2', {}, 'What is wrong'),
    h('ul', { class: 'story' }, list.slice(0, maxProblems).map((p) => h('li', {}, h('strong', {}, link(p)), h('span', { class: 'bad' }, p.message)))),
    list.length > maxProblems && h('p', { class: 'soft' }, `and ${list.length - maxProblems} more: lull status shows all.`),
  ];
}

function waiting(o) {
  if (o.reasons.length === 0) {
    return empty(o.policies.length === 0 ? 'There is no CarbonPolicy yet, so Lull holds nothing. Make a GridZone and a CarbonPolicy first.' : 'Nothing waits.');
  }
  return table('What waits, and why', ['why', 'meaning', '#workloads', 'next start', 'earliest deadline', '#emits', '#saves'], o.reasons.map((r) => [
    h('a', { href: `#/workloads?state=Waits&reason=${encodeURIComponent(r.reason)}` }, r.reason || 'no reason yet'), r.meaning, r.workloads, r.nextStart ? at(r.nextStart) : '',
    r.deadline ? at(r.deadline) : '', grams(r.expectedG), share(r.expectedG, r.baselineG)]), ['meaning']);
}

export async function overview(fetchJSON) {
  const [o, s] = await Promise.all([fetchJSON('api/overview'), fetchJSON('api/savings').catch((e) => ({ failed: e.message }))]);
  const open = o.waiting + o.running;
  return [
    h('h2', {}, 'Overview'),
    h('div', { class: 'cards' },
      stateCard(o),
      card('Waits', String(o.waiting), [h('a', { href: '#/workloads?state=Waits' }, count(o.waiting, 'workload')), ` held for cleaner power or for room; ${o.running} run`]),
      card('Will save', open === 0 ? 'nothing' : grams(o.baselineG - o.expectedG), open === 0 ? 'No workload waits or runs.'
        : `CO2eq by the plans of what waits and runs: ${grams(o.expectedG)} instead of ${grams(o.baselineG)} at once${o.baselineG > 0 ? ` (${share(o.expectedG, o.baselineG)})` : ''}${o.unpriced ? `; without ${count(o.unpriced, 'workload')} of unknown emissions` : ''}`),
      s.failed ? card('Saved', 'unknown', `The ledger cannot be read: ${s.failed}`, true) : savedCard(s, o.now)),
    problems(o.problems),
    h('h2', {}, 'What waits, and why'),
    waiting(o),
    h('h2', {}, 'Policies'),
    o.policies.length === 0 ? empty('There is no CarbonPolicy yet.')
      : table('Policies', ['policy', 'zone', 'planner', '#waiting', '#running', '#finished', '#emits', '#saves', 'state'], o.policies.map((p) => [
        h('a', { href: `#/workloads?namespace=${encodeURIComponent(p.namespace)}` }, `${p.namespace}/${p.name}`), p.zone, p.planner, p.waiting, p.running, p.finished,
        grams(p.expectedG), share(p.expectedG, p.baselineG), p.problem ? h('span', { class: 'bad' }, 'see above') : 'ready'])),
  ];
}
