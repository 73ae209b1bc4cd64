// What volumes are made of: the source of a volume of a pod, and the source of a PersistentVolume, as text.

/** Names of the fields that identify a source, most telling first. */
const NAMES = ['claimName', 'path', 'name', 'secretName', 'driver', 'server'];
/** Fields of a volume that are not its source. */
const OTHER = new Set(['name', 'mounts']);
/** Fields of the specification of a PersistentVolume that are not its source. */
const SPEC = new Set(['capacity', 'accessModes', 'claimRef', 'persistentVolumeReclaimPolicy', 'storageClassName', 'volumeMode', 'mountOptions',
  'nodeAffinity', 'volumeAttributesClassName']);

/** Kind of a source in words: `persistentVolumeClaim` is `persistent volume claim`. */
function words(kind) {
  return kind.replace(/[A-Z]+/g, (letters) => ` ${letters.length > 1 ? letters : letters.toLowerCase()}`).trim();
}

function named(kind, source) {
  const value = NAMES.map((field) => source?.[field]).find(Boolean);
  return value ? `${words(kind)} ${value}` : words(kind);
}

function emptyDir({ medium, sizeLimit }) {
  const kind = medium === 'Memory' ? 'empty dir in memory' : 'empty dir';
  return sizeLimit ? `${kind}, at most ${sizeLimit}` : kind;
}

function projected({ sources = [] }) {
  const parts = sources.flatMap((one) => Object.entries(one)).map(([kind, source]) => named(kind, source));
  return `projected: ${parts.join(', ') || 'nothing'}`;
}

/** The source of a volume of a pod. Names only: contents are never read. */
export function volumeSource(volume) {
  const [kind, source] = Object.entries(volume).find(([field]) => !OTHER.has(field)) ?? ['emptyDir', {}];
  if (kind === 'emptyDir') return emptyDir(source ?? {});
  if (kind === 'projected') return projected(source ?? {});
  return named(kind, source);
}

/** The source of a PersistentVolume. */
export function persistentSource(volume) {
  const found = Object.entries(volume.spec).find(([field]) => !SPEC.has(field));
  return found ? named(...found) : '–';
}

/** Size, class and modes of a claim or a PersistentVolume. */
export function storage(object) {
  const { spec, status } = object;
  const size = status?.capacity?.storage ?? spec.capacity?.storage ?? spec.resources?.requests?.storage;
  return [size, spec.storageClassName, (spec.accessModes ?? []).join(', ')].filter(Boolean).join(' · ') || '–';
}

/** Text and tone of the phase of a claim or a PersistentVolume. */
export function storageState({ status }) {
  const phase = status?.phase ?? 'Unknown';
  return [{ Bound: 'good', Available: 'idle', Released: 'idle', Pending: 'warn', Lost: 'bad', Failed: 'bad' }[phase] ?? 'warn', phase];
}
