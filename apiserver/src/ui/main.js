// The frame of the page: sign-in, navigation, theme, connection state. Views are modules of their own.
import { dropToken, hasToken, hooks, isCluster, setToken, takeToken } from './api.js';
import { fill, h, tick } from './dom.js';
import { nodeList, nodeView } from './nodes.js';
import { overview } from './overview.js';
import { podView } from './pod.js';
import { podList } from './pods.js';
import { eventList, imageList, namespaceList, requestList, volumeList, workloadList } from './tables.js';

const TICK_MS = 5000;
/** A lost connection is shown after this time, because most are back sooner. */
const LOST_MS = 1500;
const THEMES = ['auto', 'light', 'dark'];
const THEME_KEY = 'coracle.theme';

/** Name, text and view of each entry of the navigation. Views with `cluster` exist only on the master. */
const VIEWS = [
  { name: '', text: 'Overview', show: overview },
  { name: 'nodes', text: 'Nodes', show: ([name], page) => (name ? nodeView(name, page) : nodeList(page)), cluster: true },
  { name: 'namespaces', text: 'Namespaces', show: (_, page) => namespaceList(page), cluster: true },
  { name: 'workloads', text: 'Workloads', show: (_, page) => workloadList(page), cluster: true },
  { name: 'pods', text: 'Pods', show: ([namespace, name], page) => (name ? podView(namespace, name, page) : podList(namespace, page)) },
  { name: 'events', text: 'Events', show: (_, page) => eventList(page) },
  { name: 'images', text: 'Images', show: (_, page) => imageList(page) },
  { name: 'volumes', text: 'Volumes', show: (_, page) => volumeList(page) },
  { name: 'requests', text: 'Requests', show: (_, page) => requestList(page), cluster: true },
];

const $ = (id) => document.getElementById(id);
const main = $('main');
/** What the views know of the server. */
const page = { cluster: false };
let current = null;
let started = false;

/** The view of the address: `#/pods/default/web` is `['pods', 'default', 'web']`. */
function parts() {
  const path = location.hash.startsWith('#/') ? location.hash.slice(2) : '';
  try { return path.split('/').map(decodeURIComponent); } catch { return ['']; }
}

function leave() {
  if (!current) return;
  for (const stop of current.stops) stop();
  current.view.leave?.();
  current = null;
}

function show({ focus = true } = {}) {
  if (!started) return;
  const [name, ...rest] = parts();
  const entry = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
  leave();
  const view = entry.show(rest, page);
  const heading = h('h1', { tabindex: -1 }, view.title);
  fill(main, h('div', { class: 'head' }, view.above, heading, view.beside), view.element);
  document.title = `${heading.textContent} – Coracle`;
  const update = () => view.update?.();
  current = { view, stops: view.uses.map((resource) => resource.use(update)) };
  update();
  for (const anchor of $('nav').querySelectorAll('a')) {
    if (anchor.dataset.name === entry.name) anchor.setAttribute('aria-current', 'page');
    else anchor.removeAttribute('aria-current');
  }
  $('nav').querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  if (focus) {
    heading.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function navigation() {
  fill($('nav'), h('ul', {}, VIEWS.filter((one) => page.cluster || !one.cluster).map((one) =>
    h('li', {}, h('a', { href: `#/${one.name}`, 'data-name': one.name }, one.text)))));
  fill($('brand'), h('span', { class: 'long' }, 'Coracle '), page.cluster ? 'cluster' : 'node');
}

/** Shows the form for a token. Closes the streams of the view. */
function signIn(problem) {
  leave();
  started = false;
  fill($('nav'));
  $('brand').textContent = 'Coracle';
  $('leave').hidden = true;
  state('Signed out', 'idle');
  document.title = 'Sign in – Coracle';
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, 'aria-describedby': 'token-help' });
  const error = h('p', { class: 'error', role: 'alert' }, problem);
  const submit = (event) => {
    event.preventDefault();
    const token = field.value.trim();
    if (!token) return;
    setToken(token);
    start();
  };
  fill(main, h('form', { class: 'card sign-in', on: { submit } },
    h('h1', { tabindex: -1 }, 'Sign in'),
    h('label', { for: 'token' }, 'Token'),
    field,
    error,
    h('button', { type: 'submit', class: 'primary' }, 'Sign in'),
    h('div', { id: 'token-help', class: 'soft' },
      h('p', {}, 'On a node, ', h('code', {}, 'kubelet ui'), ' prints the URL of this page with a read-only token.'),
      h('p', {}, 'For a cluster, use the token of a service account that may read: ', h('code', {}, 'kubectl create token NAME'), '.'),
      h('p', {}, 'The token stays in this tab until you close it.'))));
  field.focus();
}

async function start() {
  state('Connecting', 'idle');
  let rejected = false;
  hooks.unauthenticated = () => { rejected = true; };
  try {
    page.cluster = await isCluster();
  } catch (error) {
    if (rejected) {
      const wasGiven = hasToken();
      dropToken();
      signIn(wasGiven ? 'The server rejected the token. It may have expired.' : '');
    } else {
      state('Disconnected', 'bad');
      fill(main, h('div', { class: 'card' }, h('h1', {}, 'The server does not answer'), h('p', { role: 'alert' }, error.message),
        h('button', { type: 'button', class: 'primary', on: { click: start } }, 'Try again')));
    }
    return;
  }
  hooks.unauthenticated = () => {
    if (!started) return;
    dropToken();
    signIn('The session has ended, because the server no longer accepts the token.');
  };
  started = true;
  $('leave').hidden = !hasToken();
  // The sign-in form had the focus. At the first load, the link that skips the navigation stays first.
  const wasInForm = main.contains(document.activeElement);
  navigation();
  show({ focus: wasInForm });
}

/** The state in the header. Screen readers announce it, so it changes only if its text does. */
function state(text, tone) {
  const element = $('link');
  if (element.textContent !== text) element.textContent = text;
  element.className = `link ${tone}`;
}

const lost = new Set();
let lostTimer = 0;
function connection(resource, reached) {
  if (reached === 'lost') lost.add(resource);
  else lost.delete(resource);
  if (!started) return;
  if (lost.size === 0) {
    clearTimeout(lostTimer);
    lostTimer = 0;
    if (reached !== 'stopped' || current) state('Live', 'good');
  } else if (!lostTimer) {
    lostTimer = setTimeout(() => { if (started && lost.size > 0) state('Disconnected', 'bad'); }, LOST_MS);
  }
}

function theme(name) {
  const chosen = THEMES.includes(name) ? name : 'auto';
  document.documentElement.dataset.theme = chosen;
  fill($('theme'), h('span', { class: 'long' }, 'Theme: '), chosen);
  return chosen;
}

function setUp() {
  hooks.connection = connection;
  let chosen = theme(localStorage.getItem(THEME_KEY));
  $('theme').addEventListener('click', () => {
    chosen = theme(THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]);
    localStorage.setItem(THEME_KEY, chosen);
  });
  // A reload also removes what this tab has read.
  $('leave').addEventListener('click', () => {
    dropToken();
    location.replace('#/');
    location.reload();
  });
  $('skip').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
  addEventListener('hashchange', () => {
    if (takeToken()) location.reload();
    else if (location.hash.startsWith('#/') || !location.hash) show();
  });
  setInterval(tick, TICK_MS);
  takeToken();
  start();
}

setUp();
