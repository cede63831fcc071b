// What the ledger has settled: by month, policy and day, and the workloads that ended last.
import { at, count, empty, grams, h, number, plusMinus, share, table, workloadLink } from './draw.js';
import { bars } from './pictures.js';

const title = () => h('h2', {}, 'Savings');

function byMonth(months) {
  const several = new Set(months.map((m) => `${m.signal} ${m.factor}`)).size > 1;
  return [
    h('h3', {}, 'By month'),
    !several && bars(months, 'month'),
    several && h('p', { class: 'soft' }, 'The months have intensities of several signals or factors, which do not add up: each has a row of its own.'),
    table('By month', ['month', ...(several ? ['intensities'] : []), '#workloads', '#kWh', '#emitted', '#as submitted', '#saved', '#saved, %', '#late', '#withheld'], months.map((m) => [
      m.name, ...(several ? [`${m.signal} ${m.factor}`] : []), m.workloads, number(m.kWh), plusMinus(m.gCO2eq, m.uncertainGCO2eq), grams(m.asSubmittedGCO2eq), plusMinus(m.savedGCO2eq, m.savedUncertainGCO2eq),
      share(m.gCO2eq, m.asSubmittedGCO2eq), m.late, m.withheld || 0]).reverse()),
  ];
}

const recent = (list) => list.length > 0 && [
  h('h3', {}, 'Ended last'),
  table('Ended last', ['workload', 'ended', '#kWh', '#emitted', '#as submitted', '#saved', 'deadline'], list.map((r) => [
    workloadLink(r), at(r.end), number(r.kWh), ...(r.withheld ? ['withheld', '', ''] : [grams(r.gCO2eq), grams(r.asSubmittedGCO2eq), grams(r.savedGCO2eq)]), r.onTime ? 'kept' : 'missed'])),
];

export async function savings(fetchJSON) {
  const s = await fetchJSON('api/savings');
  if (!s.ledger) return [title(), empty('There is no ledger, so nothing is known of what was saved. Start ', h('code', {}, 'lull controller'), ' with ', h('code', {}, '--ledger'), ', then ', h('code', {}, 'lull serve'), ' with the same.')];
  const t = s.of.all;
  const unreadable = s.unreadable > 0 && h('p', { class: 'bad' }, `${count(s.unreadable, 'settlement')} of the ledger cannot be decoded and ${s.unreadable === 1 ? 'is' : 'are'} in no figure.`);
  if (!s.problem && t.workloads === 0 && s.months.length === 0) return [title(), unreadable, empty('Nothing is settled yet. A workload is settled, in the order of submission, when it is over and the intensities of its hours are published.')];
  if (s.problem) return [title(), unreadable, h('p', { class: 'bad' }, s.problem), byMonth(s.months), recent(s.recent)];
  const row = (x) => [x.name, x.workloads, number(x.kWh), plusMinus(x.gCO2eq, x.uncertainGCO2eq), grams(x.asSubmittedGCO2eq), grams(x.savedGCO2eq), share(x.gCO2eq, x.asSubmittedGCO2eq), number(x.delayHours), x.late];
  const days = (s.of.days || []).slice(-60);
  const head = (name) => [name, '#workloads', '#kWh', '#emitted', '#as submitted', '#saved', '#saved, %', '#delay, h', '#late'];
  return [
    title(), unreadable,
    h('p', { class: 'big' }, plusMinus(t.savedGCO2eq, s.savedUncertainGCO2eq), h('span', { class: 'soft' }, ` CO2eq saved of ${grams(t.asSubmittedGCO2eq)} as submitted, by ${count(t.workloads, 'workload')}`)),
    h('p', { class: 'soft' }, `Of the workloads settled in the last ${s.days} days${s.older ? `, without the ${s.older} oldest of them, which are too many for a page` : ''}; lull report has all. The range (90 %) is that of measured or modelled energy.`),
    t.withheld > 0 && h('p', { class: 'bad' }, `Emissions and savings of ${t.withheld} of ${t.workloads} workloads are withheld: they have hours without a known carbon intensity, or a figure that no workload has.`),
    t.filledHours > 0 && h('p', { class: 'soft' }, `${number(t.filledHours)} hours without a known carbon intensity take the value of the same hour of another day.`),
    byMonth(s.months),
    h('h3', {}, 'By policy'), table('By policy', head('policy'), (s.of.groups || []).map(row)),
    recent(s.recent),
    days.length > 0 && [h('h3', {}, 'By day'), bars(days, 'day'), table('By day', head('day'), days.map(row).reverse())],
  ];
}
