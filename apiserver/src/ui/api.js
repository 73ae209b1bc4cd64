// The Kubernetes API with the credentials of this browser: lists, watches and streams. Addresses are relative.

import { identity } from './format.js';

const base = new URL('..', document.baseURI);
const KEY = 'coracle.token';
const PAGE = 500;
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 30000;
const EVENT_LIMIT = 500;
const WATCH_SECONDS = 300;
/** A resource is still watched for this time after its last view, so that the next view has it at once. */
const LINGER_MS = 2000;
/** HTTP status of a resource version that the server no longer has. */
const GONE = 410;

/** Called when the server asks for credentials. */
export const hooks = { unauthenticated: () => {}, connection: () => {} };

/** Moves a token of the fragment to the session of this tab, so that it is not in the history. */
export function takeToken() {
  const found = /^#token=([A-Za-z0-9._~+/=-]{1,16384})$/.exec(location.hash);
  if (!found) return false;
  setToken(found[1]);
  history.replaceState(null, '', location.pathname + '#/');
  return true;
}
export function setToken(token) { sessionStorage.setItem(KEY, token); }
export function dropToken() { sessionStorage.removeItem(KEY); }
export function hasToken() { return sessionStorage.getItem(KEY) !== null; }

/** An answer that is not a success. */
export class Refused extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

/** Sends a GET request. */
export async function get(path, { signal, accept = 'application/json' } = {}) {
  const headers = { Accept: accept };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(new URL(path, base), { headers, signal, cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer' });
  if (answer.ok) return answer;
  const text = (await answer.text()).slice(0, 4096);
  let message = text;
  try { message = JSON.parse(text).message ?? text; } catch { /* Plain text is the message. */ }
  if (answer.status === 401 || (answer.status === 403 && message.includes('system:anonymous'))) hooks.unauthenticated();
  throw new Refused(answer.status, message || `HTTP ${answer.status}`);
}

export async function json(path, options) { return (await get(path, options)).json(); }

/** The lines of a streamed answer. */
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split('\n');
      rest = parts.pop();
      if (rest.length > 1 << 24) throw new Error('a line of the answer is too long');
      yield parts;
    }
    if (rest) yield [rest];
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A resource that is listed and watched while at least one view uses it. */
export class Resource {
  constructor(path, { limit = Infinity, poll = 0, key = identity } = {}) {
    Object.assign(this, { path, limit, poll, key });
    this.items = new Map();
    this.listeners = new Set();
    this.state = 'loading';
    this.message = '';
  }

  list() { return [...this.items.values()]; }

  /** Calls `listener` after changes, until the returned function is called. */
  use(listener) {
    this.listeners.add(listener);
    if (!this.control) {
      this.control = new AbortController();
      this.run(this.control.signal);
    }
    return () => {
      this.listeners.delete(listener);
      setTimeout(() => { if (this.listeners.size === 0) this.stop(); }, LINGER_MS);
    };
  }

  stop() {
    this.control?.abort();
    this.control = null;
    this.items = new Map();
    this.state = 'loading';
    hooks.connection(this, 'stopped');
  }

  changed() {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; for (const listener of this.listeners) listener(); }, 80);
  }

  set(state, message = '') {
    this.state = state;
    this.message = message;
    hooks.connection(this, state);
    this.changed();
  }

  async run(signal) {
    let retry = FIRST_RETRY_MS;
    let relist = true;
    while (!signal.aborted) {
      try {
        if (relist) await this.relist(signal);
        this.set('ready');
        retry = FIRST_RETRY_MS;
        if (this.poll) { await sleep(this.poll, signal); continue; }
        relist = await this.watch(signal);
      } catch (error) {
        if (signal.aborted) return;
        relist = true;
        if (error instanceof Refused && [401, 403, 404].includes(error.code)) {
          this.items.clear();
          this.set(error.code === 404 ? 'absent' : 'forbidden', error.message);
          retry = LONGEST_RETRY_MS;
        } else if (!(error instanceof Refused && error.code === GONE)) this.set('lost', error.message);
        await sleep(retry * (0.75 + Math.random() / 2), signal);
        retry = Math.min(retry * 2, LONGEST_RETRY_MS);
      }
    }
  }

  async relist(signal) {
    const found = new Map();
    let next = '';
    do {
      const page = await json(`${this.path}?limit=${PAGE}${next && `&continue=${encodeURIComponent(next)}`}`, { signal });
      for (const item of page.items ?? []) found.set(this.key(item), slim(item));
      next = page.metadata?.continue ?? '';
      this.version = page.metadata?.resourceVersion ?? '';
    } while (next && found.size < this.limit);
    this.items = found;
    this.trim();
  }

  /** Follows changes. Returns whether the list is needed again. */
  async watch(signal) {
    const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${WATCH_SECONDS}&resourceVersion=${encodeURIComponent(this.version)}`;
    // A connection that broke without notice ends here too, because the server closes every watch earlier.
    const overdue = AbortSignal.timeout((WATCH_SECONDS + 30) * 1000);
    const answer = await get(`${this.path}?${query}`, { signal: AbortSignal.any([signal, overdue]) });
    for await (const batch of lines(answer)) {
      for (const line of batch) {
        if (!line) continue;
        const { type, object } = JSON.parse(line);
        if (type === 'ERROR') {
          await sleep(FIRST_RETRY_MS, signal);
          return true;
        }
        this.version = object.metadata.resourceVersion ?? this.version;
        if (type === 'DELETED') this.items.delete(this.key(object));
        else if (type !== 'BOOKMARK') {
          const key = this.key(object);
          if (this.limit !== Infinity) this.items.delete(key);
          this.items.set(key, slim(object));
        }
      }
      this.trim();
      this.changed();
    }
    await sleep(500, signal);
    return false;
  }

  trim() {
    for (const key of this.items.keys()) {
      if (this.items.size <= this.limit) break;
      this.items.delete(key);
    }
  }
}

function slim(item) {
  if (item.metadata) delete item.metadata.managedFields;
  return item;
}

export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

const POLL_MS = 15000;
const named = (item) => `${item.metadata.namespace ?? ''}/${item.metadata.name}`;
const polled = (path) => new Resource(path, { poll: POLL_MS, key: named });
export const nodes = new Resource('api/v1/nodes');
export const pods = new Resource('api/v1/pods');
export const events = new Resource('api/v1/events', { limit: EVENT_LIMIT });
export const nodeUsage = polled('apis/metrics.k8s.io/v1beta1/nodes');
export const podUsage = polled('apis/metrics.k8s.io/v1beta1/pods');
export const namespaces = new Resource('api/v1/namespaces');
export const requests = new Resource('apis/certificates.k8s.io/v1/certificatesigningrequests');
export const persistentVolumes = new Resource('api/v1/persistentvolumes');
export const claims = new Resource('api/v1/persistentvolumeclaims');
export const deployments = new Resource('apis/apps/v1/deployments');
export const statefulSets = new Resource('apis/apps/v1/statefulsets');
export const daemonSets = new Resource('apis/apps/v1/daemonsets');
/** Usage of the file systems. Only kubelets have it, and it is one object instead of a list. */
export const summary = new Resource('stats/summary', { poll: POLL_MS });
summary.relist = async function relist(signal) {
  this.items = new Map([['', await json(this.path, { signal })]]);
};

/** Whether this is the API server of a cluster: the API of a node has no service accounts. */
export async function isCluster() {
  const found = await json('api/v1');
  return (found.resources ?? []).some((one) => one.name === 'serviceaccounts');
}
