// The page: a view for each hash of the address. It is drawn again when the server says that something has changed.
import { h } from './draw.js';
import { overview } from './overview.js';
import { savings } from './savings.js';
import { workload, workloads } from './workloads.js';
import { capacity, zones } from './zones.js';

const main = document.getElementById('main');
const state = document.getElementById('state');

async function fetchJSON(path) {
  const answer = await fetch(path).catch(() => { throw new Error('The server does not answer. Check that "lull serve", or the controller, still runs.'); });
  const body = answer.headers.get('Content-Type')?.startsWith('application/json') ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Error(body.error || `${answer.status} ${answer.statusText}`);
  return body;
}

// view returns the title of the page that a hash names, and the function that reads and draws it.
function view(hash) {
  const [path, query] = (hash.slice(1) || '/').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  const of = (title, draw) => ({ title, draw, name: parts[0] || '' });
  switch (parts[0] || '') {
    case '': return of('Overview', () => overview(fetchJSON));
    case 'zones': return of('Zones', () => zones(fetchJSON));
    case 'capacity': return of('Capacity', () => capacity(fetchJSON));
    case 'savings': return of('Savings', () => savings(fetchJSON));
    case 'workloads':
      return parts.length === 3 ? of(parts[2], () => workload(fetchJSON, parts[1], parts[2], new URLSearchParams(query).get('uid'))) : of('Workloads', () => workloads(fetchJSON, new URLSearchParams(query)));
    default: return of('Not found', async () => [h('h2', {}, 'Not found'), h('p', {}, 'There is no such page. Choose one above.')]);
  }
}

function say(text, bad) {
  state.textContent = text;
  state.className = bad ? 'bad' : '';
}

function markCurrent(name) {
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === `#/${name}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
}

// editing says that somebody types into the page, which is then not drawn again.
const editing = () => main.contains(document.activeElement) && ['INPUT', 'SELECT'].includes(document.activeElement.tagName);

let first = true;

// show draws the page of the address. moved says that it is another page than before: its content is replaced at once by "Loading",
// and the focus goes to it. Otherwise what is shown stays until the new content is there, and stays if that fails.
async function show(moved) {
  const hash = location.hash;
  const { title, draw, name } = view(hash);
  markCurrent(name);
  if (moved) {
    document.title = `${title} - Lull`;
    main.setAttribute('aria-busy', 'true');
    main.replaceChildren(h('p', { class: 'loading soft' }, 'Loading'));
    if (!first) main.focus();
    first = false;
  }
  try {
    const content = await draw();
    if (location.hash !== hash || (!moved && editing())) return; // another page was opened meanwhile
    const focused = document.activeElement?.getAttribute?.('href');
    main.replaceChildren(...content.flat(Infinity).filter(Boolean));
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    say(`as of ${new Date().toISOString().slice(11, 19)} UTC`);
  } catch (e) {
    if (location.hash !== hash) return;
    say(moved ? '' : `not updated: ${e.message}`, true);
    if (moved) main.replaceChildren(h('h2', {}, title), h('p', { class: 'bad', role: 'alert' }, e.message), h('p', {}, h('button', { onclick: () => show(true) }, 'Try again')));
  } finally {
    if (location.hash === hash) main.removeAttribute('aria-busy');
  }
}

window.addEventListener('hashchange', () => show(true));
document.querySelector('.skip').addEventListener('click', (e) => { e.preventDefault(); main.focus(); }); // a hash is the name of a page here
const changes = new EventSource('api/changes');
let connected = false;
changes.addEventListener('changed', () => show(false));
changes.onerror = () => { say('no connection; trying again', true); };
changes.onopen = () => { if (connected) show(main.querySelector('[role=alert]') !== null); connected = true; };
show(true);
