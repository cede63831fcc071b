// Looks at every page at two widths as a person would, and prints what is wrong, a line each.
//   node page.mjs URL NAMESPACE WORKLOAD FOLDER
import { chromium } from 'playwright-core';

const [url, namespace, workload, folder] = process.argv.slice(2);
const patience = 120000; // milliseconds, for a slow machine
const wrong = [];
const check = (ok, what) => { if (!ok) wrong.push(what); };

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const pages = {
  zones: ['#/', 'Zones', ['Policies']],
  plans: [`#/plans?namespace=${namespace}`, 'Plans', ['of']],
  capacity: ['#/capacity', 'Capacity', []],
  savings: ['#/savings', 'Savings', ['saved']],
  workload: [`#/workloads/${namespace}/job-${workload}`, `Job ${namespace}/${workload}`, ['submitted:', 'is over', 'settled']],
};
for (const [width, size, scheme] of [['wide', { width: 1280, height: 900 }, 'light'], ['narrow', { width: 390, height: 844 }, 'dark']]) {
  const page = await browser.newPage({ viewport: size, colorScheme: scheme });
  page.setDefaultTimeout(patience);
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) wrong.push(`${width}: console: ${m.text()}`); });
  page.on('pageerror', (e) => wrong.push(`${width}: ${e.message}`));
  page.on('request', (r) => check(r.url().startsWith(url), `${width}: asks ${r.url()}`));
  for (const [name, [hash, heading, texts]] of Object.entries(pages)) {
    await page.goto(`${url}/${hash}`);
    await page.getByRole('heading', { level: 2, name: heading, exact: true }).waitFor({ timeout: patience }).catch(() => wrong.push(`${width} ${name}: no heading ${heading}`));
    const main = page.getByRole('main');
    for (const text of texts) check((await main.innerText()).includes(text), `${width} ${name}: does not say "${text}"`);
    // The tree that a screen reader has: landmarks, and no picture, link or field without a name.
    const tree = await page.locator('body').ariaSnapshot();
    for (const role of ['banner', 'navigation', 'main']) check(tree.includes(`- ${role}`), `${width} ${name}: no ${role}\n${tree}`);
    if (name === 'savings') check(tree.includes('- img "Emissions of'), `${width} ${name}: no picture of the days`);
    for (const line of tree.split('\n')) check(!/^\s*- (img|link|textbox|searchbox|combobox|button)\s*:?\s*$/.test(line), `${width} ${name}: without a name: ${line}`);
    check(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width} ${name}: the page is wider than the window`);
    const contrast = await page.evaluate(() => {
      const rgb = (c) => c.match(/[\d.]+/g).slice(0, 3).map(Number);
      const light = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const ground = light(getComputedStyle(document.body).backgroundColor);
      return [...document.querySelectorAll('h2, p, td, th, a, .soft')].map((e) => [e.textContent.slice(0, 30), ratio(light(getComputedStyle(e).color), ground)]).filter(([, r]) => r < 4.5);
    });
    check(contrast.length === 0, `${width} ${name}: too little contrast: ${JSON.stringify(contrast.slice(0, 3))}`);
    await page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true });
  }
  // By keyboard: the first stop leads to the content, the next ones through the pages.
  await page.goto(`${url}/#/`);
  await page.reload(); // another hash alone is no new page
  await page.getByRole('heading', { level: 2, name: 'Zones' }).waitFor();
  await page.keyboard.press('Tab');
  check((await page.evaluate(() => document.activeElement.textContent)) === 'To the content', `${width}: the first stop is not the way to the content`);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 2, name: 'Plans' }).waitFor({ timeout: patience }).catch(() => wrong.push(`${width}: Enter does not lead to the plans`));
  check((await page.evaluate(() => document.activeElement.id)) === 'main', `${width}: the content has not the focus after a change of page`);
  // A filter finds, and finds nothing.
  await page.getByRole('searchbox', { name: 'Name' }).fill(workload);
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText(/^1 to 1 of 1,/).waitFor({ timeout: patience }).catch(() => wrong.push(`${width}: the filter does not find ${workload} alone`)); // drawn anew by then
  await page.getByRole('searchbox', { name: 'Name' }).fill('nothing-is-called-so');
  await page.keyboard.press('Enter');
  await page.getByText('No workload fits.').waitFor({ timeout: patience }).catch(() => wrong.push(`${width}: the filter finds what is not there`));
  await page.close();
}
// What changes is shown without a reload: the caller submits "late" when it reads this line.
const page = await browser.newPage();
page.setDefaultTimeout(patience);
await page.goto(`${url}/#/plans?namespace=${namespace}`);
await page.getByRole('heading', { level: 2, name: 'Plans' }).waitFor();
console.log('ready');
await page.getByRole('link', { name: `${namespace}/late` }).waitFor({ timeout: patience }).catch(() => wrong.push('a new workload is not shown'));
await browser.close();
for (const what of wrong) console.log(`wrong: ${what}`);
console.log('done');
