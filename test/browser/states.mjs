// The page in states that a test cluster is rarely in: nothing there yet, still loading, in trouble, without an answer, and with a year
// of savings. The answers of the server are replaced by those below.
import { checkPage, checkPicture, patience } from './checks.mjs';

const now = '2026-11-28T10:00:00Z';
const nothing = { now, waiting: 0, running: 0, expectedG: 0, baselineG: 0, reasons: [], programs: [], problems: [], zones: [], policies: [], curves: [] };
const noLedger = { ledger: false, days: 0, of: { all: {} }, months: [], recent: [] };
const month = (name, i) => ({ name, signal: 'average', factor: 'lifecycle', workloads: 900 + i, late: i % 3, kWh: 400, gCO2eq: 90000 + 3000 * i, asSubmittedGCO2eq: 130000, savedGCO2eq: 40000 - 3000 * i, uncertainGCO2eq: 9000, savedUncertainGCO2eq: 2000, withheld: i % 2 });
const names = ['2025-12', ...Array.from({ length: 11 }, (_, i) => `2026-${String(i + 1).padStart(2, '0')}`)];
const total = { workloads: 2700, late: 3, kWh: 1200, gCO2eq: 270000, asSubmittedGCO2eq: 390000, savedGCO2eq: 120000, uncertainGCO2eq: 27000, delayHours: 3.2, longestDelayHours: 20, withheld: 2 };
const year = { ledger: true, days: 90, savedUncertainGCO2eq: 12000, of: { all: total, groups: [{ ...total, name: 'team-a/clean' }], days: [] }, months: names.map(month), recent: [{ namespace: 'team-a', kind: 'Job', name: 'train', object: 'job-train', workload: 'some-uid', end: now, kWh: 2, gCO2eq: 500, asSubmittedGCO2eq: 900, savedGCO2eq: 400, onTime: true }] };
const policy = { namespace: 'team-a', name: 'clean', zone: 'de', planner: 'joint', waiting: 12, running: 3, finished: 40, expectedG: 5200, baselineG: 8100 };
const zone = { name: 'de', grid: 'DE', intensity: 312, trend: 'Falling', basis: 'Forecast', source: 'a provider', age: '5m', now, stale: false, forecast: Array.from({ length: 48 }, (_, i) => ({ from: new Date(Date.parse(now) + i * 3600e3).toISOString(), value: 300 + 150 * Math.sin(i / 4) })) };
const busy = {
  ...nothing, waiting: 12, running: 3, expectedG: 5200, baselineG: 8100, zones: [zone], policies: [policy],
  programs: [{ name: 'controller', works: true, message: 'at work (pod-1)' }, { name: 'failsafe', works: true, message: 'at work (pod-2)' }],
  reasons: [
    { reason: 'CleanerLater', meaning: 'the plan starts or continues later', workloads: 10, expectedG: 4000, baselineG: 6600, nextStart: '2026-11-28T13:00:00Z', deadline: '2026-11-29T08:00:00Z' },
    { reason: 'SharedCapacity', meaning: 'it waits because the cluster is full, not for cleaner power', workloads: 2, expectedG: 1200, baselineG: 1500, nextStart: null, deadline: null }],
};
const trouble = {
  ...busy, programs: [{ name: 'controller', works: true, message: 'at work (pod-1)' }, { name: 'failsafe', works: false, message: 'silent for 5m0s (pod-2)' }],
  problems: [
    { object: '3 workloads', message: 'there is no place before the deadline. It runs at once, or as soon as there is room that no other deadline needs', reason: 'DeadlineAtRisk' },
    { object: 'GridZone de', message: 'no answer from the provider since 2026-11-28T06:00:00Z' }, { object: 'failsafe', message: 'silent for 5m0s (pod-2)' }],
};

const story = {
  plan: { namespace: 'team-a', kind: 'Job', name: 'train', object: 'job-train', policy: 'clean', state: 'Finished', message: 'The workload has been deleted. The ledger has these entries of it.', workers: 0, progress: 1, deadline: '2026-11-28T08:00:00Z', phases: [], expectedG: 500, baselineG: 900, emittedG: 500, energyKWh: 2 },
  deleted: true,
  entries: [
    { kind: 'submitted', at: now, body: { at: '2026-11-27T08:10:00Z', workers: 4, deadline: '2026-11-28T08:00:00Z' } },
    { kind: 'settled', at: now, body: { revision: 0, from: '2026-11-27T12:00:00Z', to: '2026-11-27T23:30:00Z', kWh: 2, grams: 500, uncertainty: 0.1, savedGrams: 400, counterfactual: { from: '2026-11-27T08:10:00Z', to: '2026-11-27T15:10:00Z', grams: 900 } } }],
  runs: [
    { from: '2026-11-27T12:00:00Z', to: '2026-11-27T15:00:00Z', zone: 'de', workers: 2 }, { from: '2026-11-27T12:00:00Z', to: '2026-11-27T16:00:00Z', zone: 'de', workers: 2 },
    { from: '2026-11-27T20:00:00Z', to: '2026-11-27T23:30:00Z', zone: 'de', workers: 4 }],
  intensities: [{ zone: 'de', values: Array.from({ length: 24 }, (_, i) => ({ from: new Date(Date.parse('2026-11-27T08:00:00Z') + i * 3600e3).toISOString(), to: new Date(Date.parse('2026-11-27T09:00:00Z') + i * 3600e3).toISOString(), value: 300 + 150 * Math.cos(i / 3) })) }],
};

// states: what the server answers, on which page, what the page must then say, and which picture it must have.
const states = {
  empty: { page: '#/', overview: nothing, savings: noLedger, says: ['not set up', 'Lull holds nothing', 'There is no ledger', 'There is no CarbonPolicy yet'] },
  'empty-zones': { page: '#/zones', overview: nothing, savings: noLedger, says: ['There is no GridZone yet'] },
  'empty-savings': { page: '#/savings', overview: nothing, savings: noLedger, says: ['There is no ledger'] },
  busy: { page: '#/', overview: busy, savings: year, says: ['nothing is wrong', 'Saved in 2026-11', '7.00 kg ± 2.00 kg', '2.90 kg', 'CleanerLater', '2026-11-28 13:00'] },
  trouble: { page: '#/', overview: trouble, savings: year, says: ['3 problems', 'What is wrong', 'silent for 5m0s', 'no place before the deadline'] },
  year: { page: '#/savings', overview: busy, savings: year, says: ['By month', '2025-12', '120 kg ± 12.00 kg', 'team-a/train'], picture: 'Emissions of 12 months' },
  finished: { page: '#/workloads/team-a/job-train', overview: busy, savings: year, story, says: ['has been deleted', 'saved 400 g ± 40 g', 'When it ran', '2026-11-27 20:00', 'It ran in the shaded hours'], picture: 'team-a/train over the carbon intensity of de' },
};

const json = (route, body, status = 200) => route.fulfill({ status, contentType: 'application/json', body: JSON.stringify(body) });

// checkStates visits each state in each of the sizes, and the loading and the error state in the first.
export async function checkStates(newPage, url, sizes, folder, check) {
  for (const size of sizes) {
    for (const [name, s] of Object.entries(states)) {
      const page = await newPage(size);
      await page.route('**/api/overview', (r) => json(r, s.overview));
      await page.route('**/api/savings', (r) => json(r, s.savings));
      if (s.story) await page.route('**/api/workloads/**', (r) => json(r, s.story));
      await page.goto(`${url}/${s.page}`);
      const where = `${size.name} ${name}`;
      for (const text of s.says) {
        await page.waitForFunction((t) => document.querySelector('main').innerText.includes(t), text, { timeout: patience }).catch(() => check(false, `${where}: does not say "${text}"`));
      }
      if (s.picture) await checkPicture(page, where, s.picture, check);
      await checkPage(page, where, check);
      await page.screenshot({ path: `${folder}/state-${name}-${size.name}.png`, fullPage: true });
      await page.close();
    }
  }
  await checkLoading(await newPage(sizes[0]), url, check);
  await checkError(await newPage(sizes[0], true), url, check);
}

// checkLoading: until the answer is there the page says that it loads, and is marked as busy.
async function checkLoading(page, url, check) {
  let answer;
  const asked = new Promise((resolve) => { page.route('**/api/savings', (r) => { answer = () => json(r, year); resolve(); }); });
  await page.goto(`${url}/#/savings`);
  await asked;
  check((await page.getByRole('main').innerText()).includes('Loading'), 'loading: does not say so');
  check((await page.getByRole('main').getAttribute('aria-busy')) === 'true', 'loading: is not marked as busy');
  await answer();
  await page.getByText('By month').first().waitFor({ timeout: patience }).catch(() => check(false, 'loading: never ends'));
  check((await page.getByRole('main').getAttribute('aria-busy')) === null, 'loading: stays busy');
  await page.close();
}

// checkError: an error is stated with its text, and "Try again" reads once more.
async function checkError(page, url, check) {
  let fail = true;
  await page.route('**/api/savings', (r) => (fail ? json(r, { error: 'the database is locked' }, 500) : json(r, year)));
  await page.goto(`${url}/#/savings`);
  await page.getByRole('alert').getByText('the database is locked').waitFor({ timeout: patience }).catch(() => check(false, 'error: does not say what is wrong'));
  fail = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('By month').first().waitFor({ timeout: patience }).catch(() => check(false, 'error: "Try again" does not'));
  await page.close();
}
