// Elements, numbers, tables and cards.
const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false && child !== '') element.append(child);
  return element;
}

// h makes an element, svg one of a picture.
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// at writes a time (UTC), as all of Lull does.
export const at = (time) => new Date(time).toISOString().slice(0, 16).replace('T', ' ');

export const hours = (from, to) => (new Date(to) - new Date(from)) / 3600e3;
export const number = (v) => (v === 0 ? '0' : Math.abs(v) >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3))));
export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

export function grams(g) {
  const size = Math.abs(g);
  if (size >= 1e6) return `${(g / 1e6).toFixed(2)} t`;
  if (size >= 1e5) return `${(g / 1000).toFixed(0)} kg`;
  if (size >= 1000) return `${(g / 1000).toFixed(2)} kg`;
  return `${size >= 10 ? g.toFixed(0) : number(g)} g`;
}

// share writes what a plan saves of the baseline, in percent; '' without a baseline, or if the emissions are not known (null).
export const share = (emitted, baseline) => (emitted !== null && baseline > 0 ? `${Math.round(100 * (1 - emitted / baseline))} %` : '');

// plusMinus writes a quantity with its uncertainty.
export const plusMinus = (g, uncertain) => `${grams(g)} ± ${grams(uncertain)}`;

// workloadLink leads to the page of a workload; with a UID in workload, to that one of several of its name.
export const workloadLink = (w, text) => h('a', { href: `#/workloads/${encodeURIComponent(w.namespace)}/${encodeURIComponent(w.object)}${w.workload ? `?uid=${encodeURIComponent(w.workload)}` : ''}` }, text || `${w.namespace}/${w.name}`);

// table draws rows; the head of a column of numbers begins with "#", wide are columns of text.
export function table(caption, head, rows, wide = []) {
  if (rows.length === 0) return null;
  const kind = (i) => (head[i].startsWith('#') ? 'number' : wide.includes(head[i]) ? 'text' : null);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, h('table', {},
    h('thead', {}, h('tr', {}, head.map((name, i) => h('th', { scope: 'col', class: kind(i) }, name.replace('#', ''))))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => h('td', { class: kind(i) }, cell instanceof Node ? cell : String(cell))))))));
}

// card draws one figure: what it is, its value, and a line that explains it.
export const card = (title, value, note, bad) => h('section', { class: 'card', 'aria-label': title }, h('h3', {}, title), h('p', { class: bad ? 'big bad' : 'big' }, value), h('p', { class: 'soft' }, note));

// empty draws what stands in the place of something that there is none of: what is missing, and what to do.
export const empty = (...text) => h('p', { class: 'empty' }, ...text);
