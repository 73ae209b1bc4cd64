// The first view. On a node: its state, usage and pressure. On the master: nodes and counts. Both: what needs attention.
import { events, namespaces, nodes, nodeUsage, pods, podUsage, requests, summary } from './api.js';
import { card, fill, h, link, states } from './dom.js';
import { bytes, podState } from './format.js';
import { allImages } from './images.js';
import { nodeFacts, nodeState, nodeTable, pressures, usageBars } from './nodes.js';
import { byUrgency, podTable } from './pods.js';
import { byTime, eventTable, requestState } from './tables.js';

const SHOWN_WARNINGS = 6;
const SHOWN_PODS = 20;

/** Replaces the content of an element if what it shows has changed. */
function keyed(element) {
  let last = null;
  return (stamp, build) => {
    if (stamp === last) return;
    last = stamp;
    fill(element, build());
  };
}

/** A number with a name, as a link to its view. */
function tile(href, name, value, tone, note) {
  return h('li', {}, h('a', { class: `tile ${tone}`, href }, h('span', { class: 'tile-name' }, name), h('span', { class: 'tile-value' }, value),
    h('span', { class: 'soft' }, note)));
}

/** Whether a pod still counts towards the limit of its node. */
function isActive(pod) {
  return !['Succeeded', 'Failed'].includes(pod.status?.phase);
}

function counts(all) {
  const tones = all.map((pod) => podState(pod)[0]);
  const number = (tone) => tones.filter((one) => one === tone).length;
  return { good: number('good'), warn: number('warn'), bad: number('bad'), idle: number('idle') };
}

function podTile(all) {
  const { good, warn, bad, idle } = counts(all);
  const parts = [[bad, 'failing'], [warn, 'not ready'], [idle, 'completed']].filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`);
  const tone = bad ? 'bad' : warn ? 'warn' : 'good';
  return tile('#/pods', 'Pods', `${good} / ${all.length - idle}`, tone, parts.join(', ') || 'all ready');
}

function warningTile(found) {
  const text = found.length === 1 ? 'warning recorded' : 'warnings recorded';
  return tile('#/events', 'Warnings', found.length, found.length ? 'warn' : 'good', text);
}

function nodeTiles(all, warnings) {
  const node = nodes.list()[0];
  const state = node ? nodeState(node) : ['idle', 'Unknown'];
  const images = allImages();
  const size = images.reduce((sum, one) => sum + (one.sizeBytes ?? 0), 0);
  return [tile('#/', 'Node', state[1], state[0], node?.metadata.name ?? ''), podTile(all), warningTile(warnings),
    tile('#/images', 'Images', images.length, '', size ? bytes(size) : 'used by pods')];
}

function clusterTiles(all, warnings) {
  const list = nodes.list();
  const up = list.filter((node) => nodeState(node)[0] === 'good').length;
  const pending = requests.list().filter((one) => requestState(one)[1] === 'Pending').length;
  return [
    tile('#/nodes', 'Nodes', `${up} / ${list.length}`, up === list.length ? 'good' : 'bad', 'ready and schedulable'),
    podTile(all),
    warningTile(warnings),
    tile('#/namespaces', 'Namespaces', namespaces.items.size, '', 'in the cluster'),
    requests.state === 'ready' && tile('#/requests', 'Certificate requests', pending, pending ? 'warn' : 'good', 'pending'),
  ];
}

/** The first view of a node or a cluster. */
export function overview(_, page) {
  const tiles = h('ul', { class: 'tiles' });
  const about = h('div', { class: 'stack' });
  const updateTiles = keyed(tiles);
  const updateAbout = keyed(about);
  const attention = podTable({ caption: 'Pods that need attention', compact: true, limit: SHOWN_PODS, empty: 'Every pod is as it should be' });
  const warnings = eventTable({ caption: 'Recent warnings', compact: true, limit: SHOWN_WARNINGS, empty: 'No warnings' });
  const members = page.cluster ? nodeTable('Nodes', true) : null;
  const state = states([nodes, pods, events]);

  function update() {
    const all = pods.list();
    const found = events.list().filter((event) => event.type === 'Warning').sort(byTime);
    const node = nodes.list()[0];
    state.update();
    const stamp = JSON.stringify([counts(all), found.length, nodes.list().map((one) => [one.metadata.name, nodeState(one)]),
      namespaces.items.size, requests.list().map(requestState), requests.state, allImages().length]);
    updateTiles(stamp, () => (page.cluster ? clusterTiles(all, found) : nodeTiles(all, found)));
    attention.update(all.filter((pod) => ['bad', 'warn'].includes(podState(pod)[0])).sort(byUrgency));
    warnings.update(found.slice(0, SHOWN_WARNINGS));
    members?.update(nodes.list());
    if (!page.cluster && node) {
      const disks = summary.list()[0];
      const version = [node.metadata.resourceVersion, nodeUsage.items.get(`/${node.metadata.name}`)?.timestamp, disks?.node?.fs?.time, all.filter(isActive).length];
      updateAbout(version.join(), () => [pressures(node), usageBars(node, all.filter(isActive).length, disks), nodeFacts(node)]);
    }
  }

  const element = h('div', { class: 'stack' }, state.element, tiles,
    h('div', { class: 'columns' },
      h('div', { class: 'stack' }, card('Needs attention', attention.element), card('Recent warnings', warnings.element, h('p', {}, link(['events'], 'All events')))),
      members ? card('Nodes', members.element) : card('Node', about)));
  const own = page.cluster ? [namespaces, requests] : [summary, podUsage];
  return { title: page.cluster ? 'Cluster' : 'Node', element, uses: [nodes, pods, events, nodeUsage, ...own], update };
}
