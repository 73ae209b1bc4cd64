// The view of one pod: state, containers with probes, volumes, events and logs.
import { events, pods, podUsage } from './api.js';
import { card, chip, facts, fill, h, link, since, states, table } from './dom.js';
import { bytes, containers, containerState, cores, podState, quantity, ready, restarts, usage } from './format.js';
import { logView } from './logs.js';
import { usageOf } from './pods.js';
import { byTime, eventTable } from './tables.js';
import { volumeSource } from './volumes.js';

const PROBES = [['Startup', 'startupProbe'], ['Readiness', 'readinessProbe'], ['Liveness', 'livenessProbe']];

/** What a probe does, and how often. */
function probeText(probe) {
  const { httpGet, tcpSocket, exec, grpc } = probe;
  const what = httpGet ? `${httpGet.scheme ?? 'HTTP'} GET :${httpGet.port}${httpGet.path ?? '/'}`
    : tcpSocket ? `TCP port ${tcpSocket.port}`
      : exec ? `command ${(exec.command ?? []).join(' ')}`
        : grpc ? `gRPC port ${grpc.port}` : 'unknown';
  return `${what}, every ${probe.periodSeconds ?? 10} s, timeout ${probe.timeoutSeconds ?? 1} s, ${probe.failureThreshold ?? 3} failures`;
}

/** Whether the last result of a probe is known from the status of the container. */
function probeState(name, status) {
  if (!status?.state?.running) return ['idle', 'not running'];
  if (name === 'Startup') return status.started ? ['good', 'succeeded'] : ['warn', 'not yet'];
  if (name === 'Readiness') return status.ready ? ['good', 'ready'] : ['warn', 'not ready'];
  return ['idle', status.started === false ? 'waits for startup' : 'active'];
}

function probeRows(container, failures) {
  return PROBES.filter(([, field]) => container.spec[field]).map(([name, field]) => {
    const failure = failures.find((event) => event.message?.startsWith(`${name} probe`));
    return h('li', {}, h('span', { class: 'probe' }, `${name} probe `, chip(...probeState(name, container.status))), h('span', { class: 'soft' }, probeText(container.spec[field])),
      failure && h('span', { class: 'failure' }, 'Last failure ', since(failure.lastTimestamp ?? failure.eventTime), ' ago: ', failure.message));
  });
}

function ended(terminated) {
  if (!terminated) return null;
  const { reason, exitCode, signal, finishedAt, message } = terminated;
  return h('span', {}, `${reason ?? 'Ended'}, exit code ${exitCode}${signal ? `, signal ${signal}` : ''}, `, since(finishedAt), ' ago', message && h('pre', { tabindex: 0 }, message));
}

function amounts(spec) {
  const text = (list) => Object.entries(list ?? {}).map(([name, amount]) => `${name} ${amount}`).join(', ');
  return { requests: text(spec.resources?.requests), limits: text(spec.resources?.limits) };
}

function containerCard(container, metric, failures) {
  const { kind, spec, status } = container;
  const used = metric?.containers?.find((one) => one.name === spec.name)?.usage;
  const limit = quantity(spec.resources?.limits?.memory);
  const { requests, limits } = amounts(spec);
  const probes = probeRows(container, failures);
  const state = status?.state ?? {};
  return h('section', { class: 'card container' },
    h('h3', {}, spec.name, ' ', kind && h('span', { class: 'kind' }, kind), chip(...containerState(status))),
    state.waiting?.message && h('p', { class: 'failure' }, state.waiting.message),
    facts([
      ['Image', h('code', {}, spec.image)],
      ['Restarts', status ? status.restartCount : null],
      ['Running for', since(state.running?.startedAt)],
      ['Ended', ended(state.terminated)],
      ['Previous run', ended(status?.lastState?.terminated)],
      ['CPU', used && cores(quantity(used.cpu))],
      ['Memory', used && `${bytes(quantity(used.memory))}${limit ? ` of ${bytes(limit)}` : ''}`],
      ['Requests', requests], ['Limits', limits],
      ['Ports', (spec.ports ?? []).map((port) => `${port.containerPort}/${port.protocol ?? 'TCP'}${port.hostPort ? ` (host ${port.hostPort})` : ''}`).join(', ')],
      ['Command', spec.command || spec.args ? h('code', {}, [...(spec.command ?? []), ...(spec.args ?? [])].join(' ')) : null],
    ]),
    probes.length > 0 && h('ul', { class: 'probes', 'aria-label': `Probes of ${spec.name}` }, probes));
}

function podFacts(pod, page) {
  const metric = usageOf(pod);
  const node = pod.spec.nodeName;
  const owner = pod.metadata.ownerReferences?.find((one) => one.controller) ?? pod.metadata.ownerReferences?.[0];
  return facts([
    ['Namespace', pod.metadata.namespace],
    ['Node', node && page.cluster ? link(['nodes', node], node) : node],
    ['Ready', ready(pod)], ['Restarts', restarts(pod)],
    ['CPU', metric && cores(usage(metric, 'cpu'))], ['Memory', metric && bytes(usage(metric, 'memory'))],
    ['Pod IP', (pod.status?.podIPs ?? []).map((one) => one.ip).join(', ') || pod.status?.podIP],
    ['Owner', owner && `${owner.kind} ${owner.name}`],
    ['QoS class', pod.status?.qosClass], ['Priority', pod.spec.priorityClassName ?? pod.spec.priority],
    ['Age', since(pod.metadata.creationTimestamp)],
  ]);
}

function conditionTable() {
  return table({
    caption: 'Conditions', key: (one) => one.type, version: JSON.stringify, empty: 'No conditions',
    columns: [
      { name: 'Condition', head: true, cell: (one) => one.type },
      { name: 'Status', cell: (one) => one.status },
      { name: 'Reason', cell: (one) => one.reason ?? '–' },
      { name: 'Since', cell: (one) => since(one.lastTransitionTime) ?? '–' },
      { name: 'Message', wide: true, cell: (one) => one.message },
    ],
  });
}

function volumeTable() {
  return table({
    caption: 'Volumes', key: (one) => one.name, version: JSON.stringify, empty: 'No volumes',
    columns: [
      { name: 'Volume', head: true, cell: (one) => one.name },
      { name: 'Source', wide: true, cell: volumeSource },
      { name: 'Mounted at', wide: true, cell: (one) => one.mounts.join(', ') || '–' },
    ],
  });
}

/** The volumes of a pod with the paths at which containers mount them. */
function mounted(pod) {
  return (pod.spec.volumes ?? []).map((volume) => ({
    ...volume,
    mounts: containers(pod).flatMap(({ spec }) => (spec.volumeMounts ?? []).filter((mount) => mount.name === volume.name)
      .map((mount) => `${spec.name}:${mount.mountPath}${mount.readOnly ? ' (read-only)' : ''}`)),
  }));
}

/** The view of a pod. */
export function podView(namespace, name, page) {
  const badge = h('span', { class: 'badge' });
  const about = h('div', {});
  const parts = h('div', { class: 'stack' });
  const conditions = conditionTable();
  const volumes = volumeTable();
  const happened = eventTable({ caption: `Events of ${name}`, withObject: false });
  const state = states([pods]);
  const missing = h('p', { class: 'notice', hidden: true }, 'This pod does not exist, or it was deleted.');
  const logs = logView(namespace, name);
  let stamp = '';

  function update() {
    state.update();
    const pod = pods.list().find((one) => one.metadata.name === name && one.metadata.namespace === namespace);
    missing.hidden = Boolean(pod) || pods.state !== 'ready';
    const own = events.list().filter(({ involvedObject, metadata }) => involvedObject.kind === 'Pod' && involvedObject.name === name && metadata.namespace === namespace).sort(byTime);
    happened.update(own);
    if (!pod) return;
    const failures = own.filter((event) => event.reason === 'Unhealthy');
    const metric = usageOf(pod);
    const version = `${pod.metadata.resourceVersion} ${metric?.timestamp} ${failures[0]?.metadata.resourceVersion}`;
    // Text that is being selected, or an element with the focus, is not replaced.
    if (version !== stamp && !parts.contains(document.activeElement)) {
      stamp = version;
      fill(badge, chip(...podState(pod)));
      fill(about, pod.status?.message && h('p', { class: 'failure' }, pod.status.message), podFacts(pod, page));
      fill(parts, containers(pod).map((one) => containerCard(one, metric, failures.filter((event) => event.involvedObject.fieldPath?.includes(`{${one.spec.name}}`)))));
    }
    conditions.update(pod.status?.conditions ?? []);
    volumes.update(mounted(pod));
    logs.update(pod);
  }

  const element = h('div', { class: 'stack' }, state.element, missing,
    h('div', { class: 'columns' },
      h('div', { class: 'stack' }, card('Pod', about), h('section', { class: 'stack' }, h('h2', {}, 'Containers'), parts)),
      h('div', { class: 'stack' }, card('Logs', logs.element), card('Events', happened.element))),
    card('Volumes', volumes.element), card('Conditions', conditions.element));
  const above = h('p', { class: 'crumbs' }, link(['pods'], 'Pods'));
  return { title: name, above, beside: badge, element, uses: [pods, podUsage, events], update, leave: logs.leave };
}
