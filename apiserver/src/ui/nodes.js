// Nodes: state, usage and pressure, their table, and the view of one node of a cluster.
import { events, nodes, nodeUsage, pods, podUsage } from './api.js';
import { bar, card, chip, facts, fill, h, link, since, states, table } from './dom.js';
import { bytes, condition, cores, identity, quantity } from './format.js';
import { imagesOf, imageTable } from './images.js';
import { byName, byUrgency, podTable } from './pods.js';
import { byTime, eventTable, tables } from './tables.js';

const PRESSURES = [['MemoryPressure', 'Memory'], ['DiskPressure', 'Disk'], ['PIDPressure', 'Processes']];

/** Text and tone of a node. */
export function nodeState(node) {
  const ready = condition(node, 'Ready')?.status;
  if (ready !== 'True') return ['bad', ready === 'Unknown' ? 'Unknown' : 'Not ready'];
  const pressed = (node.status?.conditions ?? []).find((one) => one.type.endsWith('Pressure') && one.status === 'True');
  if (pressed) return ['bad', pressed.type];
  return node.spec?.unschedulable ? ['warn', 'Unschedulable'] : ['good', 'Ready'];
}

/** A table of nodes with usage. */
export function nodeTable(caption, compact = false) {
  const used = (node) => nodeUsage.items.get(`/${node.metadata.name}`);
  const percent = (node, resource, text) => {
    const all = quantity(node.status?.allocatable?.[resource]);
    const now = quantity(used(node)?.usage?.[resource]);
    return used(node) && all ? `${text(now)} (${Math.round(100 * now / all)} %)` : '–';
  };
  return table({
    caption, empty: 'No nodes', key: identity,
    version: (node) => `${node.metadata.resourceVersion} ${used(node)?.timestamp}`,
    columns: [
      { name: 'Node', head: true, cell: (node) => link(['nodes', node.metadata.name], node.metadata.name) },
      { name: 'State', cell: (node) => chip(...nodeState(node)) },
      { name: 'CPU', cell: (node) => percent(node, 'cpu', cores) },
      { name: 'Memory', cell: (node) => percent(node, 'memory', bytes) },
      !compact && { name: 'Kubelet', cell: (node) => node.status?.nodeInfo?.kubeletVersion ?? '–' },
      { name: 'Age', cell: (node) => since(node.metadata.creationTimestamp) },
    ].filter(Boolean),
  });
}

/** The pressure conditions of a node. */
export function pressures(node) {
  return h('ul', { class: 'chips' }, PRESSURES.map(([type, name]) => {
    const status = condition(node, type)?.status;
    const [tone, text] = { True: ['bad', 'pressure'], False: ['good', 'no pressure'] }[status] ?? ['idle', 'unknown'];
    return h('li', {}, chip(tone, `${name}: ${text}`));
  }));
}

/** Bars of the usage of a node. `disks` is the summary of its kubelet, if there is one. */
export function usageBars(node, podCount, disks) {
  const used = nodeUsage.items.get(`/${node.metadata.name}`)?.usage;
  const { cpu, memory, pods: most } = node.status?.allocatable ?? {};
  const bars = [];
  const amount = (label, now, all, text) => {
    if (all > 0) bars.push(bar(label, now, all, `${text(now)} of ${text(all)}`));
  };
  if (used) {
    amount('CPU', quantity(used.cpu), quantity(cpu), cores);
    amount('Memory', quantity(used.memory), quantity(memory), bytes);
  }
  for (const [label, disk] of [['Disk of the node', disks?.node?.fs], ['Disk of images', disks?.node?.runtime?.imageFs]]) {
    if (disk?.capacityBytes) amount(label, disk.capacityBytes - (disk.availableBytes ?? 0), disk.capacityBytes, bytes);
  }
  amount('Pods', podCount, quantity(most), String);
  return h('div', { class: 'bars' }, bars);
}

/** Facts of a node. */
export function nodeFacts(node) {
  const info = node.status?.nodeInfo ?? {};
  const address = (type) => (node.status?.addresses ?? []).filter((one) => one.type === type).map((one) => one.address).join(', ');
  return facts([
    ['Kubelet', info.kubeletVersion], ['Container runtime', info.containerRuntimeVersion], ['System', info.osImage], ['Kernel', info.kernelVersion],
    ['Architecture', info.architecture], ['Address', address('InternalIP')], ['Host name', address('Hostname')],
    ['Age', since(node.metadata.creationTimestamp)],
  ]);
}

export function nodeList() {
  return tables('Nodes', [['Nodes', nodeTable('Nodes'), nodes, () => nodes.list().sort(byName)]], [nodeUsage]);
}

/** The view of a node of a cluster. */
export function nodeView(name) {
  const badge = h('span', { class: 'badge' });
  const about = h('div', { class: 'stack' });
  const own = podTable({ caption: `Pods of ${name}` });
  const happened = eventTable({ caption: `Events of ${name}` });
  const images = imageTable(`Images of ${name}`);
  const state = states([nodes]);
  function update() {
    const node = nodes.list().find((one) => one.metadata.name === name);
    const here = pods.list().filter((pod) => pod.spec.nodeName === name).sort(byUrgency);
    state.update();
    own.update(here);
    happened.update(events.list().filter((event) => event.involvedObject.kind === 'Node' && event.involvedObject.name === name).sort(byTime));
    if (!node) return;
    fill(badge, chip(...nodeState(node)));
    fill(about, pressures(node), usageBars(node, here.length), nodeFacts(node));
    images.update(imagesOf([node], here));
  }
  const element = h('div', { class: 'stack' }, state.element, card('Node', about), card('Pods', own.element), card('Events', happened.element), card('Images', images.element));
  const above = h('p', { class: 'crumbs' }, link(['nodes'], 'Nodes'));
  return { title: name, above, beside: badge, element, uses: [nodes, pods, events, nodeUsage, podUsage], update };
}
