// Reads every page in four sizes as a person would, and prints what is wrong, a line each.
//   node page.mjs URL NAMESPACE WORKLOAD FOLDER
import { chromium } from 'playwright-core';
import { checkPage, checkPicture, patience } from './checks.mjs';
import { checkStates } from './states.mjs';

const [url, namespace, workload, folder] = process.argv.slice(2);
const report = (what) => console.log(`wrong: ${what}`);
const check = (ok, what) => { if (!ok) report(what); };
const sizes = [
  { name: 'laptop', viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  { name: 'phone', viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
  { name: 'tablet', viewport: { width: 768, height: 1024 }, colorScheme: 'light' },
  { name: 'desktop', viewport: { width: 1920, height: 1080 }, colorScheme: 'dark' },
];

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

// newPage opens a page that must write nothing to the console, and ask nobody else. fails says that requests of it will fail.
async function newPage(size, fails) {
  const page = await browser.newPage(size);
  page.setDefaultTimeout(patience);
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type()) && !fails) report(`${size.name}: console: ${m.text()}`); });
  page.on('pageerror', (e) => report(`${size.name}: ${e.message}`));
  page.on('request', (r) => check(r.url().startsWith(url), `${size.name}: asks ${r.url()}`));
  return page;
}

const story = `#/workloads/${namespace}/job-${workload}`;
const pages = {
  overview: { hash: '#/', heading: 'Overview', says: ['State', 'Waits', 'Will save', 'Saved in', 'What waits, and why', 'Policies'] },
  workloads: { hash: `#/workloads?namespace=${namespace}`, heading: 'Workloads', says: ['of'] },
  zones: { hash: '#/zones', heading: 'Zones', says: ['gCO2eq/kWh'], picture: 'Intensity of' },
  capacity: { hash: '#/capacity', heading: 'Capacity', says: [] },
  savings: { hash: '#/savings', heading: 'Savings', says: ['saved', 'By month', 'By policy', 'Ended last'], picture: 'Emissions of' },
  workload: { hash: story, heading: `Job ${namespace}/${workload}`, says: ['submitted:', 'is over', 'settled', 'When it ran'], picture: `${namespace}/${workload} over the carbon intensity of` },
};

async function checkPages(size) {
  const page = await newPage(size);
  for (const [name, { hash, heading, says, picture }] of Object.entries(pages)) {
    const where = `${size.name} ${name}`;
    await page.goto(`${url}/${hash}`);
    await page.getByRole('heading', { level: 2, name: heading, exact: true }).waitFor({ timeout: patience }).catch(() => report(`${where}: no heading ${heading}`));
    for (const text of says) check((await page.getByRole('main').innerText()).includes(text), `${where}: does not say "${text}"`);
    if (picture) await checkPicture(page, where, picture, check);
    await checkPage(page, where, check);
    await page.screenshot({ path: `${folder}/${name}-${size.name}.png`, fullPage: true });
  }
  await page.close();
}

// checkKeyboard: the first stop leads to the content, the next ones through the pages, and a filter works without a mouse.
async function checkKeyboard(size) {
  const page = await newPage(size);
  await page.goto(`${url}/#/`);
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor();
  await page.keyboard.press('Tab');
  check((await page.evaluate(() => document.activeElement.textContent)) === 'To the content', `${size.name}: the first stop is not the way to the content`);
  await page.keyboard.press('Enter');
  check((await page.evaluate(() => document.activeElement.id)) === 'main', `${size.name}: the first stop does not lead to the content`);
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor();
  await page.getByRole('link', { name: 'Overview' }).focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 2, name: 'Workloads' }).waitFor({ timeout: patience }).catch(() => report(`${size.name}: Enter does not lead to the workloads`));
  check((await page.evaluate(() => document.activeElement.id)) === 'main', `${size.name}: the content has not the focus after a change of page`);
  await page.getByRole('searchbox', { name: 'Name' }).fill(workload);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText(/^1 to 1 of 1,/).waitFor({ timeout: patience }).catch(() => report(`${size.name}: the filter does not find ${workload} alone`)); // drawn anew by then
  await page.getByRole('searchbox', { name: 'Name' }).fill('nothing-is-called-so');
  await page.keyboard.press('Enter');
  await page.getByText('No workload fits.').waitFor({ timeout: patience }).catch(() => report(`${size.name}: the filter finds what is not there`));
  await page.close();
}

for (const size of sizes) await checkPages(size);
for (const size of sizes.slice(0, 2)) await checkKeyboard(size);
await checkStates(newPage, url, sizes, folder, check);

// What changes is shown without a reload: the caller submits "late" when it reads this line.
const page = await newPage(sizes[0]);
await page.goto(`${url}/#/workloads?namespace=${namespace}`);
await page.getByRole('heading', { level: 2, name: 'Workloads' }).waitFor();
console.log('ready');
await page.getByRole('link', { name: `${namespace}/late` }).waitFor({ timeout: patience }).catch(() => report('a new workload is not shown'));

// Once "late" is there, the caller deletes the finished workload: its page remains, by the ledger.
console.log('delete');
await page.goto(`${url}/${story}`);
await page.getByText('The workload has been deleted.').waitFor({ timeout: patience }).catch(() => report('the page of a deleted workload does not say so'));
await checkPicture(page, 'deleted workload', `${namespace}/${workload} over the carbon intensity of`, check);
await browser.close();
console.log('done');
