// The log of a container, streamed. The page keeps the latest lines only, and continues after a broken connection.
import { get, lines, Refused, sleep } from './api.js';
import { fill, h } from './dom.js';
import { containers, plain } from './format.js';

/** Lines in the page. More would make browsers slow. */
const MOST_LINES = 2000;
/** Lines at the start. */
const TAIL = 200;
const SHOW_MS = 100;
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 15000;
/** Time and text of a line with `timestamps=true`. */
const STAMPED = /^(\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)) ?(.*)$/s;

/** The log of a pod with its controls. Call `update` with each version of the pod. */
export function logView(namespace, name) {
  const choice = h('select', { id: 'log-container', on: { change: () => restart() } });
  const previous = h('input', { id: 'log-previous', type: 'checkbox', on: { change: () => restart() } });
  const times = h('input', { id: 'log-times', type: 'checkbox', on: { change: () => output.classList.toggle('timed', times.checked) } });
  const wrap = h('input', { id: 'log-wrap', type: 'checkbox', checked: true, on: { change: () => output.classList.toggle('wrapped', wrap.checked) } });
  const follow = h('input', { id: 'log-follow', type: 'checkbox', checked: true, on: { change: scroll } });
  const output = h('div', { id: 'log', class: 'log wrapped', role: 'log', 'aria-live': 'off', tabindex: 0, 'aria-label': `Log of ${name}` });
  const status = h('p', { class: 'soft note', role: 'status' });
  let control = null;
  /** The container whose log is read, so that a restart of it continues the log. */
  let read = '';
  let pod = null;
  let queue = [];
  let dropped = 0;
  let timer = 0;

  // Reading older lines stops the scrolling, and the end of the log resumes it.
  output.addEventListener('scroll', () => {
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
    if (isAtEnd !== follow.checked) follow.checked = isAtEnd;
  });

  function scroll() {
    if (follow.checked) output.scrollTop = output.scrollHeight;
  }

  function say(text) {
    if (status.textContent !== text) fill(status, text);
  }

  function flush() {
    timer = 0;
    const followed = follow.checked;
    const part = document.createDocumentFragment();
    if (dropped) part.append(h('div', { class: 'line soft' }, `… ${dropped} lines are not shown`));
    for (const [time, text] of queue) part.append(h('div', { class: 'line' }, h('span', { class: 'stamp' }, time), plain(text) || ' '));
    queue = [];
    dropped = 0;
    output.append(part);
    while (output.childElementCount > MOST_LINES) output.firstElementChild.remove();
    follow.checked = followed;
    scroll();
  }

  function push(time, text) {
    queue.push([time, text]);
    if (queue.length > MOST_LINES) {
      queue.shift();
      dropped += 1;
    }
    timer ||= setTimeout(flush, SHOW_MS);
  }

  function restart() {
    control?.abort();
    control = new AbortController();
    queue = [];
    dropped = 0;
    fill(output);
    follow.checked = true;
    output.setAttribute('aria-label', `Log of ${choice.value}`);
    run(control.signal, choice.value, previous.checked);
  }

  /** Reads until the view ends. `last` is the time of the latest line, from which a new connection continues. */
  async function run(signal, container, old) {
    let retry = FIRST_RETRY_MS;
    let last = '';
    while (!signal.aborted) {
      const id = idOf(container);
      try {
        say('Connecting');
        const query = new URLSearchParams({ container, timestamps: 'true' });
        if (old) query.set('previous', 'true');
        else query.set('follow', 'true');
        if (last) query.set('sinceTime', last);
        else query.set('tailLines', TAIL);
        const answer = await get(`api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log?${query}`, { signal, accept: '*/*' });
        say(old ? 'Log of the previous run' : 'Live');
        const from = last;
        for await (const batch of lines(answer)) {
          if (signal.aborted) return;
          retry = FIRST_RETRY_MS;
          for (const line of batch) {
            const [, time, text] = STAMPED.exec(line) ?? ['', last, line];
            // `sinceTime` has a resolution of seconds, so lines of the last second come again.
            if (from && time <= from) continue;
            last = time;
            push(time, text);
          }
        }
        say(old ? 'End of the log of the previous run' : 'The log has ended');
        if (old) return;
      } catch (error) {
        if (signal.aborted) return;
        say(error instanceof Refused ? error.message : 'Disconnected');
        if (old && error instanceof Refused) return;
      }
      await change(signal, container, id, retry * (0.75 + Math.random() / 2));
      retry = Math.min(retry * 2, LONGEST_RETRY_MS);
    }
  }

  /** Waits until the container has another run, or for a time if it should have a log. */
  async function change(signal, container, id, ms) {
    await sleep(ms, signal);
    const isOver = () => Boolean(statusOf(container)?.state?.terminated) && idOf(container) === id;
    while (!signal.aborted && isOver()) await sleep(FIRST_RETRY_MS, signal);
  }

  function statusOf(container) {
    return pod && containers(pod).find((one) => one.spec.name === container)?.status;
  }

  function idOf(container) {
    return statusOf(container)?.containerID ?? '';
  }

  function update(next) {
    pod = next;
    const names = containers(pod).map((one) => one.spec.name);
    const shown = [...choice.options].map((option) => option.value);
    if (names.join() !== shown.join()) {
      const chosen = choice.value || pod.metadata.annotations?.['kubectl.kubernetes.io/default-container'] || pod.spec.containers[0].name;
      fill(choice, names.map((one) => h('option', { value: one }, one)));
      choice.value = names.includes(chosen) ? chosen : names[0];
    }
    previous.disabled = !statusOf(choice.value)?.restartCount;
    if (choice.value !== read) {
      read = choice.value;
      restart();
    }
  }

  function leave() {
    control?.abort();
    clearTimeout(timer);
  }

  choice.addEventListener('change', () => { read = choice.value; });
  const box = (input, text) => h('label', { class: 'check', for: input.id }, input, text);
  const element = h('div', {},
    h('div', { class: 'filters' },
      h('div', { class: 'field' }, h('label', { for: 'log-container' }, 'Container'), choice),
      h('div', { class: 'checks', role: 'group', 'aria-label': 'Log options' }, box(follow, 'Follow'), box(wrap, 'Wrap'), box(times, 'Times'), box(previous, 'Previous run'))),
    output, status);
  return { element, update, leave };
}
