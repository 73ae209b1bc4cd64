// Images: those that nodes report in their status, and those that containers use.
import { nodes, pods } from './api.js';
import { h, link, table } from './dom.js';
import { bytes, containers } from './format.js';
import { byName } from './pods.js';

const SHOWN_PODS = 3;
const DIGEST = /sha256:[0-9a-f]{64}/;

/** A name without the registry and the folder that engines add. */
function short(name) {
  return name.replace(/^docker\.io\/(library\/)?/, '');
}

/** The images of some nodes with the pods that use them. Nodes that report no images have those of their pods. */
export function imagesOf(someNodes, somePods) {
  const found = new Map();
  const known = new Map();
  const add = (names, sizeBytes) => {
    const tags = names.filter((name) => !name.includes('@') && !DIGEST.test(name));
    const image = { names: new Set(names), title: tags[0] ?? names[0] ?? '<none>', digest: DIGEST.exec(names.join(' '))?.[0], sizeBytes, nodes: new Set(), pods: new Map() };
    found.set(image.title + (image.digest ?? ''), image);
    for (const name of names) known.set(short(name), image);
    return image;
  };
  for (const node of someNodes) {
    for (const { names = [], sizeBytes } of node.status?.images ?? []) {
      const image = names.map((name) => known.get(short(name))).find(Boolean) ?? add(names, sizeBytes);
      image.nodes.add(node.metadata.name);
    }
  }
  for (const pod of [...somePods].sort(byName)) {
    for (const { spec, status } of containers(pod)) {
      if (!status?.imageID) continue;
      const names = [spec.image, status.image, status.imageID].filter(Boolean);
      const image = [known.get(short(status.imageID)), known.get(short(spec.image))].find(Boolean) ?? add(names);
      image.pods.set(`${pod.metadata.namespace}/${pod.metadata.name}`, pod);
      if (pod.spec.nodeName) image.nodes.add(pod.spec.nodeName);
    }
  }
  return [...found.values()].sort((left, right) => (right.sizeBytes ?? 0) - (left.sizeBytes ?? 0) || left.title.localeCompare(right.title));
}

function users(image) {
  const all = [...image.pods.values()];
  const links = all.slice(0, SHOWN_PODS).map((pod, index) => [index > 0 && ', ', link(['pods', pod.metadata.namespace, pod.metadata.name], pod.metadata.name)]);
  if (all.length > SHOWN_PODS) links.push(`, and ${all.length - SHOWN_PODS} more`);
  return all.length > 0 ? links : '–';
}

/** A table of images. `withNodes` adds the column of the nodes that have them. */
export function imageTable(caption, withNodes = false) {
  return table({
    caption, empty: 'No images', limit: 200, key: (image) => image.title + (image.digest ?? ''),
    version: (image) => [image.sizeBytes, ...image.pods.keys(), ...image.nodes].join(),
    columns: [
      { name: 'Image', head: true, cell: (image) => image.title },
      { name: 'Digest', cell: (image) => (image.digest ? h('code', { title: image.digest }, image.digest.slice(0, 19)) : '–') },
      { name: 'Size', cell: (image) => (image.sizeBytes ? bytes(image.sizeBytes) : '–') },
      { name: 'Used by', wide: true, cell: users },
      withNodes && { name: 'Nodes', wide: true, cell: (image) => [...image.nodes].join(', ') },
    ].filter(Boolean),
  });
}

/** All images of the node or the cluster. */
export function allImages() {
  return imagesOf(nodes.list(), pods.list());
}
