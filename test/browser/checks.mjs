// What every page must be, whatever it shows.

// patience is how long a check waits, in milliseconds, on a slow machine.
export const patience = 120000;

// contrasts returns texts whose contrast to the page is below 4.5:1 (WCAG 2.1, level AA).
const contrasts = (page) => page.evaluate(() => {
  const rgb = (c) => c.match(/[\d.]+/g).slice(0, 3).map(Number);
  const light = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll('h2, h3, p, td, th, a, .soft, .empty')].map((e) => [e.textContent.slice(0, 30), ratio(light(getComputedStyle(e).color), ground)]).filter(([, r]) => r < 4.5);
});

// checkPage checks landmarks and names for a screen reader, width, contrast, and that dates are ISO 8601.
export async function checkPage(page, where, check) {
  const tree = await page.locator('body').ariaSnapshot();
  for (const role of ['banner', 'navigation', 'main']) check(tree.includes(`- ${role}`), `${where}: no ${role}\n${tree}`);
  for (const line of tree.split('\n')) check(!/^\s*- (img|link|textbox|searchbox|combobox|button)\s*:?\s*$/.test(line), `${where}: without a name: ${line}`);
  check(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${where}: the page is wider than the window`);
  const poor = await contrasts(page);
  check(poor.length === 0, `${where}: too little contrast: ${JSON.stringify(poor.slice(0, 3))}`);
  const text = await page.getByRole('main').innerText();
  const odd = text.match(/\b\d{1,2}\.\d{1,2}\.(?!\d)|\b\d{1,2}\/\d{1,2}\/\d{2,4}\b|NaN|undefined|Invalid Date|\[object/);
  check(!odd, `${where}: says "${odd?.[0]}"`);
}

// pictures waits until a page has a picture whose name begins so.
export async function checkPicture(page, where, name, check) {
  const found = await page.getByRole('img', { name }).first().waitFor({ timeout: patience }).then(() => true, () => false);
  check(found, `${where}: no picture "${name}"`);
}
