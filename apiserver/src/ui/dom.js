// Elements without HTML parsing: every value becomes text or an attribute, so hostile names stay text.
import { age, clean } from './format.js';

/** Creates an element. `class`, `on` (listeners) and attributes come from `props`; strings become text. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? '' : clean(String(value)));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : clean(String(child)));
  }
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  const parts = document.createDocumentFragment();
  add(parts, children);
  element.replaceChildren(parts);
  return element;
}

/** A state with a colour: `good`, `warn`, `bad` or `idle`. The text carries the meaning. */
export function chip(tone, text) {
  return h('span', { class: `chip ${tone}` }, text);
}

/** A link to a view of this page. */
export function link(parts, text, props = {}) {
  return h('a', { href: '#/' + parts.map(encodeURIComponent).join('/'), ...props }, text);
}

/** The time since a timestamp. `tick` keeps it current, so that rows need no update for it. */
export function since(timestamp) {
  if (!timestamp || Number.isNaN(Date.parse(timestamp))) return null;
  return h('time', { datetime: timestamp, title: new Date(timestamp).toLocaleString(), 'data-since': true }, age(timestamp));
}

/** Brings the times of the page up to date. */
export function tick() {
  for (const time of document.querySelectorAll('time[data-since]')) {
    const text = age(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}

/** A text that says why a resource has no items yet, or that they are out of date. Hidden if there is nothing to say. */
export function states(resources) {
  const element = h('p', { class: 'notice', hidden: true });
  function update() {
    const texts = new Set(resources.map(({ state, message }) => ({
      loading: 'Loading…', forbidden: `Not permitted: ${message}`, lost: `Out of date, because the server does not answer: ${message}`,
    })[state]).filter(Boolean));
    const text = clean([...texts].join(' '));
    if (element.textContent !== text) element.textContent = text;
    element.hidden = !text;
  }
  return { element, update };
}

/** A section with a heading. */
export function card(title, ...children) {
  return h('section', { class: 'card' }, h('h2', {}, title), children);
}

/** Names and values. Pairs without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return h('dl', { class: 'facts' }, known.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

/** A bar for `used` of `total`, with a label and a text. */
export function bar(label, used, total, text) {
  const share = total > 0 ? Math.min(1, Math.max(0, used / total)) : 0;
  const percent = Math.round(share * 100);
  const level = h('span', { class: share > 0.9 ? 'level bad' : share > 0.75 ? 'level warn' : 'level' });
  level.style.width = `${percent}%`;
  const meter = h('div', {
    class: 'meter', role: 'meter', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': 100,
    'aria-valuenow': percent, 'aria-valuetext': text,
  }, level);
  return h('div', { class: 'bar-row' }, h('div', { class: 'bar-text' }, h('span', {}, label), h('span', { class: 'soft' }, text)), meter);
}

/**
 * A table whose rows are kept by key. `columns` are `{name, cell(item), head, wide}`; the cells of a row are built
 * again only if `version(item)` changes. On small screens the style sheet shows rows as cards; roles keep the table.
 */
export function table({ caption, columns, key, version, limit = 500, empty = 'None' }) {
  const body = h('tbody', { role: 'rowgroup' });
  const head = h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
    columns.map((column) => h('th', { scope: 'col', role: 'columnheader' }, column.name))));
  const grid = h('table', { role: 'table' }, h('caption', { class: 'unseen' }, caption), head, body);
  const note = h('p', { class: 'soft note', hidden: true });
  const more = h('button', { type: 'button', hidden: true, on: { click: () => { shown += limit; update(last); } } }, 'Show more');
  const rows = new Map();
  let shown = limit;
  let last = [];
  function row(item) {
    const cells = columns.map((column) => column.head
      ? h('th', { scope: 'row', role: 'rowheader', 'data-label': column.name }, column.cell(item))
      : h('td', { role: 'cell', 'data-label': column.name, class: column.wide ? 'wide' : undefined }, column.cell(item)));
    return h('tr', { role: 'row' }, cells);
  }
  function update(items) {
    last = items;
    const visible = items.slice(0, shown);
    const kept = new Set();
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    for (const item of visible) kept.add(key(item));
    // First, so that the other rows keep their places.
    for (const [id, entry] of rows) {
      if (!kept.has(id)) { entry.element.remove(); rows.delete(id); }
    }
    let place = body.firstElementChild;
    for (const item of visible) {
      const id = key(item);
      const stamp = version(item);
      let entry = rows.get(id);
      if (!entry) {
        entry = { stamp, element: row(item) };
        rows.set(id, entry);
      } else if (entry.stamp !== stamp && !entry.element.contains(document.activeElement)) {
        const fresh = row(item);
        if (place === entry.element) place = fresh;
        entry.element.replaceWith(fresh);
        entry.element = fresh;
        entry.stamp = stamp;
      } else if (entry.stamp !== stamp) {
        // The row has the focus: replace its cells except the one that holds it.
        const fresh = row(item);
        [...entry.element.children].forEach((cell, index) => {
          if (!cell.contains(document.activeElement)) cell.replaceWith(fresh.children[0]);
          else fresh.children[0].remove();
        });
        entry.stamp = stamp;
      }
      if (entry.element === place) place = place.nextElementSibling;
      else body.insertBefore(entry.element, place);
    }
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    grid.hidden = items.length === 0;
    note.hidden = items.length > 0 && items.length <= shown;
    more.hidden = items.length <= shown;
    note.textContent = items.length === 0 ? empty : `${visible.length} of ${items.length} are shown`;
  }
  update([]);
  return { element: h('div', { class: 'table' }, grid, note, more), update };
}
