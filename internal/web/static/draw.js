// Elements, numbers and tables.
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

const two = (n) => String(n).padStart(2, '0');

// at writes a time (UTC), as all of Lull does.
export function at(time) {
  const t = new Date(time);
  return `${t.getUTCFullYear()}-${two(t.getUTCMonth() + 1)}-${two(t.getUTCDate())} ${two(t.getUTCHours())}:${two(t.getUTCMinutes())}`;
}

export const hours = (from, to) => (new Date(to) - new Date(from)) / 3600e3;
export const number = (v) => (v === 0 ? '0' : Math.abs(v) >= 100 ? v.toFixed(0) : String(Number(v.toPrecision(3))));

export function grams(g) {
  const size = Math.abs(g);
  if (size >= 1e6) return `${(g / 1e6).toFixed(2)} t`;
  if (size >= 1000) return `${(g / 1000).toFixed(2)} kg`;
  return `${size >= 10 ? g.toFixed(0) : number(g)} g`;
}

// table draws rows; the head of a column of numbers begins with "#", wide are columns of text.
export function table(caption, head, rows, wide = []) {
  if (rows.length === 0) return null;
  const kind = (i) => (head[i].startsWith('#') ? 'number' : wide.includes(head[i]) ? 'text' : null);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, h('table', {},
    h('thead', {}, h('tr', {}, head.map((name, i) => h('th', { scope: 'col', class: kind(i) }, name.replace('#', ''))))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => h('td', { class: kind(i) }, cell instanceof Node ? cell : String(cell))))))));
}
