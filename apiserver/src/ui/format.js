// Pure functions: text of amounts and times, and the state of a pod as kubectl prints it.

const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
// Control characters except tab and newline, and characters that change the direction of text or are invisible.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Text with hidden characters made visible. */
export function clean(text) {
  return text.replace(HIDDEN, (one) => {
    const code = one.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
  });
}

/** A line of a log: without escape sequences of terminals, and with other hidden characters visible. */
export function plain(line) {
  return clean(line.replace(ESCAPES, '').replace(/\r$/, '').slice(0, 16384));
}

const SUFFIX = { n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };

/** The number of a quantity; 0 if it is not one. */
export function quantity(text) {
  const found = /^([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(text ?? '');
  return found ? Number(found[1]) * (SUFFIX[found[2]] ?? 0) : 0;
}

export function bytes(number) {
  for (const [name, unit] of [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (number >= unit) return `${(number / unit).toFixed(number < 10 * unit ? 1 : 0)} ${name}`;
  }
  return `${Math.round(number)} B`;
}

export function cores(number) {
  return number < 1 ? `${Math.round(number * 1000)}m` : `${number.toFixed(number < 10 ? 1 : 0)} cores`;
}

/** The time since a timestamp, in at most two units. */
export function age(timestamp, now = Date.now()) {
  const since = Date.parse(timestamp ?? '');
  if (Number.isNaN(since)) return '';
  const seconds = Math.max(0, Math.floor((now - since) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A key of an object. Events of a node have no UID. */
export function identity({ metadata }) {
  return metadata.uid ?? `${metadata.namespace ?? ''}/${metadata.name}`;
}

/** The time of the latest occurrence of an event. */
export function eventTime(event) {
  return event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? event.metadata.creationTimestamp;
}

export function eventCount(event) {
  return event.series?.count ?? event.count ?? 1;
}

/** All containers of a pod with kind, specification and status. */
export function containers(pod) {
  const kinds = [['init', 'initContainers', 'initContainerStatuses'], ['', 'containers', 'containerStatuses'],
    ['debug', 'ephemeralContainers', 'ephemeralContainerStatuses']];
  return kinds.flatMap(([kind, specs, statuses]) => (pod.spec[specs] ?? []).map((spec) => ({
    kind: kind === 'init' && spec.restartPolicy === 'Always' ? 'sidecar' : kind,
    spec,
    status: (pod.status?.[statuses] ?? []).find((one) => one.name === spec.name),
  })));
}

export function restarts(pod) {
  return containers(pod).reduce((sum, one) => sum + (one.status?.restartCount ?? 0), 0);
}

export function ready(pod) {
  const own = containers(pod).filter((one) => one.kind === '' || one.kind === 'sidecar');
  return `${own.filter((one) => one.status?.ready).length}/${own.length}`;
}

export function condition(object, type) {
  return (object.status?.conditions ?? []).find((one) => one.type === type);
}

/** Text and tone of a container state. */
export function containerState(status) {
  const state = status?.state ?? {};
  if (state.running) return status.ready ? ['good', 'Running'] : ['warn', 'Running, not ready'];
  if (state.terminated) {
    const { exitCode, reason } = state.terminated;
    return exitCode === 0 ? ['idle', reason ?? 'Completed'] : ['bad', `${reason ?? 'Error'} (exit code ${exitCode})`];
  }
  const reason = state.waiting?.reason ?? 'Waiting';
  return [/BackOff|Err|Error|Invalid/.test(reason) ? 'bad' : 'warn', reason];
}

/** Text and tone of a pod. */
export function podState(pod) {
  const phase = pod.status?.phase ?? 'Unknown';
  if (pod.metadata.deletionTimestamp) return ['warn', 'Terminating'];
  const failing = containers(pod).find((one) => {
    const [tone] = containerState(one.status);
    return tone === 'bad' && phase !== 'Succeeded';
  });
  if (failing) return ['bad', containerState(failing.status)[1]];
  if (pod.status?.reason) return [phase === 'Failed' ? 'bad' : 'warn', pod.status.reason];
  if (phase === 'Succeeded') return ['idle', 'Completed'];
  if (phase === 'Failed') return ['bad', 'Failed'];
  if (phase === 'Running') return condition(pod, 'Ready')?.status === 'True' ? ['good', 'Running'] : ['warn', 'Not ready'];
  const waiting = containers(pod).find((one) => one.status?.state?.waiting?.reason);
  return ['warn', waiting ? waiting.status.state.waiting.reason : phase];
}

/** The sum of a resource over containers of a pod metric. */
export function usage(metric, resource) {
  return (metric?.containers ?? []).reduce((sum, one) => sum + quantity(one.usage?.[resource]), 0);
}
