// Views that are tables: namespaces, workloads, events, images, volumes and certificate signing requests.
import {
  claims, daemonSets, deployments, events, namespaces, nodes, persistentVolumes, pods, requests, statefulSets, summary,
} from './api.js';
import { card, chip, h, link, since, states, table } from './dom.js';
import { bytes, eventCount, eventTime, identity } from './format.js';
import { allImages, imageTable } from './images.js';
import { byName } from './pods.js';
import { persistentSource, storage, storageState, volumeSource } from './volumes.js';

/** The latest event first. */
export function byTime(left, right) {
  return Date.parse(eventTime(right)) - Date.parse(eventTime(left));
}

/** A table of events. */
export function eventTable({ caption, withObject = true, compact = false, limit = 100, empty = 'No events' }) {
  const columns = compact ? [
    { name: 'Reason', head: true, cell: (event) => chip(event.type === 'Warning' ? 'warn' : 'idle', event.reason ?? event.type) },
    { name: 'Message', wide: true, cell: (event) => [objectOf(event), h('div', {}, event.message ?? event.note)] },
    { name: 'Last seen', cell: (event) => [since(eventTime(event)) ?? '–', eventCount(event) > 1 && h('div', { class: 'soft' }, `${eventCount(event)} times`)] },
  ] : [
    { name: 'Reason', head: true, cell: (event) => chip(event.type === 'Warning' ? 'warn' : 'idle', event.reason ?? event.type) },
    withObject && { name: 'Object', cell: objectOf },
    { name: 'Message', wide: true, cell: (event) => event.message ?? event.note ?? '' },
    { name: 'Count', cell: eventCount },
    { name: 'Last seen', cell: (event) => since(eventTime(event)) ?? '–' },
  ];
  return table({ caption, columns: columns.filter(Boolean), limit, empty, key: identity, version: (event) => event.metadata.resourceVersion });
}

function objectOf(event) {
  const { kind, name, namespace } = event.involvedObject;
  if (kind === 'Pod') return link(['pods', namespace, name], `Pod ${name}`);
  return `${kind} ${name}`;
}

/** A view with one or more tables: `[title, table, resource, items()]` each. */
export function tables(title, groups, more = []) {
  const state = states(groups.map(([, , resource]) => resource));
  const update = () => {
    state.update();
    for (const [, grid, , items] of groups) grid.update(items());
  };
  const alone = groups.length === 1;
  const element = h('div', { class: 'stack' }, state.element,
    groups.map(([name, grid]) => (alone ? h('div', { class: 'card' }, grid.element) : card(name, grid.element))));
  return { title, element, uses: [...new Set([...groups.map(([, , resource]) => resource), ...more])], update };
}

export function namespaceList() {
  const count = (space) => pods.list().filter((pod) => pod.metadata.namespace === space.metadata.name).length;
  const grid = table({
    caption: 'Namespaces', empty: 'No namespaces', key: (space) => space.metadata.name,
    version: (space) => `${space.metadata.resourceVersion} ${count(space)}`,
    columns: [
      { name: 'Namespace', head: true, cell: (space) => link(['pods', space.metadata.name], space.metadata.name) },
      { name: 'State', cell: (space) => chip(space.status?.phase === 'Terminating' ? 'warn' : 'good', space.status?.phase ?? 'Active') },
      { name: 'Pods', cell: count },
      { name: 'Age', cell: (space) => since(space.metadata.creationTimestamp) ?? '–' },
    ],
  });
  return tables('Namespaces', [['Namespaces', grid, namespaces, () => namespaces.list().sort(byName)]], [pods]);
}

/** Views of Deployments, StatefulSets and DaemonSets with their replicas. */
export function workloadList() {
  const numbers = ({ spec, status = {} }) => ('desiredNumberScheduled' in status
    ? [status.numberReady ?? 0, status.desiredNumberScheduled] : [status.readyReplicas ?? 0, spec.replicas ?? 1]);
  const grid = (caption) => table({
    caption, empty: 'None', key: identity, version: (one) => one.metadata.resourceVersion,
    columns: [
      { name: 'Name', head: true, cell: (one) => one.metadata.name },
      { name: 'Namespace', cell: (one) => link(['pods', one.metadata.namespace], one.metadata.namespace) },
      { name: 'Ready', cell: (one) => { const [now, all] = numbers(one); return chip(now >= all ? 'good' : 'warn', `${now} of ${all}`); } },
      { name: 'Images', wide: true, cell: (one) => one.spec.template.spec.containers.map((each) => each.image).join(', ') },
      { name: 'Age', cell: (one) => since(one.metadata.creationTimestamp) },
    ],
  });
  return tables('Workloads', [['Deployments', deployments], ['StatefulSets', statefulSets], ['DaemonSets', daemonSets]]
    .map(([name, resource]) => [name, grid(name), resource, () => resource.list().sort(byName)]));
}

export function eventList() {
  const kind = h('select', { id: 'type', on: { change: () => view.update() } }, ['All types', 'Warning', 'Normal'].map((one, index) => h('option', { value: index ? one : '' }, one)));
  const found = () => events.list().filter((event) => !kind.value || event.type === kind.value).sort(byTime);
  const view = tables('Events', [['Events', eventTable({ caption: 'Events' }), events, found]]);
  view.element.prepend(h('div', { class: 'filters' }, h('div', { class: 'field' }, h('label', { for: 'type' }, 'Type'), kind)));
  return view;
}

export function imageList(page) {
  return tables('Images', [['Images', imageTable('Images', page.cluster), nodes, allImages]], [pods]);
}

/** The volumes of pods, with their disk usage where the kubelet measures it. */
function podVolumes() {
  const stats = new Map((summary.list()[0]?.pods ?? []).flatMap((pod) => (pod.volume ?? []).map((one) => [`${pod.podRef.uid} ${one.name}`, one.usedBytes])));
  return pods.list().sort(byName).flatMap((pod) => (pod.spec.volumes ?? []).map((volume) => ({
    key: `${pod.metadata.uid} ${volume.name}`, pod, volume, used: stats.get(`${pod.metadata.uid} ${volume.name}`),
  })));
}

export function volumeList(page) {
  const grid = table({
    caption: 'Volumes of pods', empty: 'No volumes', key: (one) => one.key, version: (one) => `${one.pod.metadata.resourceVersion} ${one.used}`,
    columns: [
      { name: 'Volume', head: true, cell: (one) => one.volume.name },
      { name: 'Pod', cell: (one) => link(['pods', one.pod.metadata.namespace, one.pod.metadata.name], one.pod.metadata.name) },
      { name: 'Namespace', cell: (one) => one.pod.metadata.namespace },
      { name: 'Source', wide: true, cell: (one) => volumeSource(one.volume) },
      !page.cluster && { name: 'Used', cell: (one) => (one.used === undefined ? '–' : bytes(one.used)) },
    ].filter(Boolean),
  });
  const stored = (caption, name, source) => table({
    caption, empty: 'None', key: identity, version: (one) => one.metadata.resourceVersion,
    columns: [
      { name: 'Name', head: true, cell: (one) => one.metadata.name },
      { name: 'State', cell: (one) => chip(...storageState(one)) },
      { name: 'Storage', cell: storage },
      { name, wide: true, cell: source },
      { name: 'Age', cell: (one) => since(one.metadata.creationTimestamp) },
    ],
  });
  const own = ['Volumes of pods', grid, pods, podVolumes];
  if (!page.cluster) return tables('Volumes', [own], [summary]);
  return tables('Volumes', [own,
    ['Claims', stored('Claims', 'Volume', (one) => `${one.metadata.namespace}: ${one.spec.volumeName ?? '–'}`), claims, () => claims.list().sort(byName)],
    ['Persistent volumes', stored('Persistent volumes', 'Source', persistentSource), persistentVolumes, () => persistentVolumes.list().sort(byName)]]);
}

/** Text and tone of a certificate signing request. */
export function requestState(request) {
  const types = (request.status?.conditions ?? []).map((one) => one.type);
  if (types.includes('Denied')) return ['bad', 'Denied'];
  if (types.includes('Failed')) return ['bad', 'Failed'];
  if (!types.includes('Approved')) return ['warn', 'Pending'];
  return request.status?.certificate ? ['good', 'Issued'] : ['warn', 'Approved'];
}

export function requestList() {
  const grid = table({
    caption: 'Certificate signing requests', empty: 'No requests', key: identity, version: (one) => one.metadata.resourceVersion,
    columns: [
      { name: 'Request', head: true, cell: (one) => one.metadata.name },
      { name: 'State', cell: (one) => chip(...requestState(one)) },
      { name: 'Requestor', wide: true, cell: (one) => one.spec.username ?? '–' },
      { name: 'Signer', wide: true, cell: (one) => one.spec.signerName },
      { name: 'Age', cell: (one) => since(one.metadata.creationTimestamp) },
    ],
  });
  const newest = (left, right) => Date.parse(right.metadata.creationTimestamp) - Date.parse(left.metadata.creationTimestamp);
  return tables('Certificate signing requests', [['Requests', grid, requests, () => requests.list().sort(newest)]]);
}
