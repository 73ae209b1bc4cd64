// The list of pods, and the columns of pods that other views show.
import { pods, podUsage } from './api.js';
import { chip, h, link, since, states, table } from './dom.js';
import { bytes, cores, identity, podState, ready, restarts, usage } from './format.js';

/** A link to a pod. */
export function podLink(pod) {
  const { namespace, name } = pod.metadata;
  return link(['pods', namespace, name], name);
}

/** The usage of pods by namespace and name. */
export function usageOf(pod) {
  return podUsage.items.get(`${pod.metadata.namespace}/${pod.metadata.name}`);
}

/** Pods that need attention come first, then by namespace and name. */
export function byUrgency(left, right) {
  const rank = (pod) => ['bad', 'warn', 'good', 'idle'].indexOf(podState(pod)[0]);
  return rank(left) - rank(right) || byName(left, right);
}

/** Order by namespace and name. */
export function byName(left, right) {
  const text = ({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`;
  return text(left).localeCompare(text(right));
}

/** A table of pods. `withNode` adds the column of the node. */
export function podTable({ caption, withNode = false, compact = false, limit, empty = 'No pods' }) {
  const columns = [
    { name: 'Pod', head: true, cell: (pod) => [podLink(pod), compact && h('span', { class: 'soft line' }, pod.metadata.namespace)] },
    { name: 'State', wide: true, cell: (pod) => chip(...podState(pod)) },
    !compact && { name: 'Namespace', cell: (pod) => pod.metadata.namespace },
    !compact && { name: 'Ready', cell: ready },
    { name: 'Restarts', cell: (pod) => restartText(pod) },
    !compact && { name: 'CPU', cell: (pod) => usageText(pod, 'cpu', cores) },
    !compact && { name: 'Memory', cell: (pod) => usageText(pod, 'memory', bytes) },
    withNode && !compact && { name: 'Node', cell: (pod) => (pod.spec.nodeName ? link(['nodes', pod.spec.nodeName], pod.spec.nodeName) : '–') },
    { name: 'Age', cell: (pod) => since(pod.metadata.creationTimestamp) ?? '–' },
  ].filter(Boolean);
  const version = (pod) => `${pod.metadata.resourceVersion} ${compact ? '' : usageOf(pod)?.timestamp} ${JSON.stringify(podState(pod))}`;
  return table({ caption, columns, key: identity, version, limit, empty });
}

function usageText(pod, resource, text) {
  const found = usageOf(pod);
  return found ? text(usage(found, resource)) : '–';
}

function restartText(pod) {
  const count = restarts(pod);
  return count > 0 ? h('strong', {}, count) : '0';
}

/** The view of all pods, or those of a namespace. */
export function podList(namespace, page) {
  const grid = podTable({ caption: 'Pods', withNode: page.cluster });
  const state = states([pods]);
  const search = h('input', { type: 'search', id: 'search', autocomplete: 'off', placeholder: 'Name, namespace or state', on: { input: () => update() } });
  const space = h('select', { id: 'namespace', on: { change: () => update() } }, h('option', { value: '' }, 'All namespaces'));
  const count = h('p', { class: 'soft count' });
  let wanted = namespace ?? '';
  space.addEventListener('change', () => { wanted = space.value; });

  /** Keeps the options and the choice while namespaces come and go. */
  function updateSpaces() {
    const names = [...new Set(pods.list().map((pod) => pod.metadata.namespace).concat(wanted || []))].sort();
    const shown = [...space.options].slice(1).map((option) => option.value);
    if (names.join() !== shown.join()) {
      space.replaceChildren(space.options[0], ...names.map((name) => h('option', { value: name }, name)));
      space.value = wanted;
    }
  }

  function update() {
    updateSpaces();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (pod) => {
      if (space.value && pod.metadata.namespace !== space.value) return false;
      const text = `${pod.metadata.namespace} ${pod.metadata.name} ${podState(pod)[1]} ${pod.spec.nodeName ?? ''}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const all = pods.list();
    const found = all.filter(matches).sort(byUrgency);
    grid.update(found);
    state.update();
    const text = found.length === all.length ? `${all.length} pods` : `${found.length} of ${all.length} pods`;
    if (count.textContent !== text) count.textContent = text;
  }

  const filters = h('div', { class: 'filters', role: 'search' },
    h('div', { class: 'field' }, h('label', { for: 'search' }, 'Search'), search),
    h('div', { class: 'field' }, h('label', { for: 'namespace' }, 'Namespace'), space), count);
  const element = h('div', {}, filters, state.element, h('div', { class: 'card' }, grid.element));
  return { title: 'Pods', element, uses: [pods, podUsage], update };
}
