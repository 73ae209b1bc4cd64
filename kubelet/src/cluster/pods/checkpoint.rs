//! Checkpoint of the assigned pods and the objects that they reference, on disk. A machine that starts while no API
//! server answers runs these pods.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::references::TokenKey;
use apiserver::auth::nodes::Kind;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::pod_store::{PersistedPod, ServerState};
use super::reference_cache;
use super::server_pod::is_safe;
use crate::cluster::{directory, stored};
use crate::desired::SourceObject;
use crate::disk;

/// Largest file that is read, in bytes. etcd stores objects up to 1.5 MiB, which are longer in JSON.
const MAX_BYTES: u64 = 8 << 20;
/// Changes within this time are written together.
const WRITE_DELAY: Duration = Duration::from_secs(1);
/// Retry interval after a failed write.
const WRITE_RETRY: Duration = Duration::from_secs(30);
/// The file with the [`ServerState`].
const SERVER_STATE_FILE: &str = "seen.json";
/// The file with the Service `default/kubernetes`.
const API_SERVICE_FILE: &str = "service.json";

/// All state that is stored.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// The assigned pods.
    pub pods: Vec<PersistedPod>,
    /// The objects that the pods reference: ConfigMaps, Secrets, tokens, claims and the API Service.
    pub held: Vec<SourceObject>,
    /// The state of the API server that was last confirmed.
    pub server_state: ServerState,
}

/// The checkpoint directory.
#[derive(Clone, Debug)]
pub struct CheckpointDir(PathBuf);

/// The content of one file.
#[derive(Clone, Debug)]
enum Entry {
    Pod(PersistedPod),
    Object(SourceObject),
    State(ServerState),
}

impl Entry {
    /// The file name. `None` if a name or UID is not safe in a path.
    fn file(&self) -> Option<String> {
        match self {
            Self::Pod(PersistedPod { pod, .. }) => {
                let uid = pod.metadata.uid.as_deref().filter(|uid| is_safe(uid))?;
                Some(format!("pod_{uid}.json"))
            }
            Self::Object(SourceObject::Token(token)) => {
                let key = TokenKey::of(token);
                let which = Sha256::digest(format!("{} {}", key.seconds, key.audience));
                let which = hex::encode(&which[..8]);
                is_safe(&key.pod_uid).then(|| format!("token_{}_{which}.json", key.pod_uid))
            }
            Self::Object(SourceObject::Claim(claim)) => {
                let key = &claim.key;
                let are_safe = is_safe(&key.pod_uid) && is_safe(&key.claim);
                are_safe.then(|| format!("claim_{}_{}.json", key.pod_uid, key.claim))
            }
            Self::Object(SourceObject::ApiService(_)) => Some(API_SERVICE_FILE.to_owned()),
            Self::Object(held) => {
                let object = reference_cache::name(held)?;
                let kind = if object.kind == Kind::Secret { "secret" } else { "configmap" };
                let are_safe = is_safe(&object.namespace) && is_safe(&object.name);
                are_safe.then(|| format!("{kind}_{}_{}.json", object.namespace, object.name))
            }
            Entry::State(_) => Some(SERVER_STATE_FILE.to_owned()),
        }
    }

    fn text(&self) -> serde_json::Result<String> {
        match self {
            Self::Pod(PersistedPod { pod, is_unclaimed, is_published }) => {
                let pod = serde_json::to_value(pod)?;
                Ok(json!({"isUnclaimed": is_unclaimed, "isTold": is_published, "pod": pod}).to_string())
            }
            Self::Object(held) => held.json().map(|value| value.to_string()),
            Entry::State(server_state) => serde_json::to_string(server_state),
        }
    }

    /// Whether two entries are the same. Objects are compared by pointer, not by content.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(one), Self::Pod(two)) => {
                let of = |pod: &PersistedPod| (Arc::as_ptr(&pod.pod), pod.is_unclaimed, pod.is_published);
                of(one) == of(two)
            }
            (Self::Object(one), Self::Object(two)) => one.is_same(two),
            (Entry::State(one), Entry::State(two)) => one == two,
            _ => false,
        }
    }
}

impl Checkpoint {
    /// The part of the checkpoint that belongs to this node. After a rename, the directory still contains pods that
    /// were assigned to the old name.
    pub fn of(&self, node: &str) -> Self {
        let is_own =
            |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node));
        let mut own = self.clone();
        own.pods.retain(|persisted| is_own(&persisted.pod));
        if own.pods.len() < self.pods.len() {
            // The recorded state of the API server was confirmed for the old name.
            own.server_state = ServerState::default();
        }
        own
    }

    fn entries(&self) -> BTreeMap<String, Entry> {
        let pods = self.pods.iter().cloned().map(Entry::Pod);
        let held = self.held.iter().cloned().map(Entry::Object);
        let all = pods.chain(held).chain([Entry::State(self.server_state.clone())]);
        all.filter_map(|entry_value| Some((entry_value.file()?, entry_value))).collect()
    }
}

impl CheckpointDir {
    /// The checkpoint directory in the kubelet's root directory.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("pods"))
    }

    /// Reads the checkpoint. Files that cannot be parsed are logged and skipped.
    pub async fn read(&self) -> Checkpoint {
        let path = self.0.clone();
        disk::run(move || load(&path)).await
    }

    /// Writes each update until the sender is dropped. `held` is the content of the directory. Only differences are
    /// written.
    pub async fn write(self, held: Checkpoint, mut updates: watch::Receiver<Arc<Checkpoint>>) {
        let mut written = held.entries();
        let mut is_complete = true;
        loop {
            let changed = async {
                if updates.changed().await.is_err() {
                    return false;
                }
                tokio::time::sleep(WRITE_DELAY).await;
                true
            };
            tokio::select! {
                goes_on = changed => if !goes_on { return },
                () = tokio::time::sleep(WRITE_RETRY), if !is_complete => {}
            }
            let (path, wanted) = (self.0.clone(), updates.borrow_and_update().entries());
            let before = std::mem::take(&mut written);
            let done = disk::run(move || save(&path, before, &wanted)).await;
            written = done.0;
            is_complete = done.1.is_none();
            if let Some(error) = done.1 {
                let path = self.0.display();
                tracing::warn!(%path, %error, "cannot store the assigned pods; they are lost if the kubelet restarts while no \
                     API server answers");
            }
        }
    }
}

fn load(path: &Path) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let file = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".json") {
            continue;
        }
        let taken = bytes(&file).and_then(|bytes| take(&mut checkpoint, &name, &bytes));
        if let Err(error) = taken {
            let path = file.display();
            tracing::warn!(%path, %error, "cannot read a checkpoint file; continuing without it");
        }
    }
    checkpoint
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds the content of one file to the checkpoint.
fn take(checkpoint: &mut Checkpoint, name: &str, bytes: &[u8]) -> io::Result<()> {
    if name == SERVER_STATE_FILE {
        checkpoint.server_state = serde_json::from_slice(bytes)?;
    } else if name.starts_with("pod_") {
        let value: Value = serde_json::from_slice(bytes)?;
        let pod = Pod::deserialize(&value["pod"])?;
        // Older kubelets did not write `isTold`: they had started every pod that they wrote.
        let (is_unclaimed, is_published) = (value["isUnclaimed"] == true, value["isTold"] != false);
        checkpoint.pods.push(PersistedPod { pod: Arc::new(pod), is_unclaimed, is_published });
    } else if name.starts_with("configmap_") {
        checkpoint.held.push(SourceObject::ConfigMap(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name.starts_with("secret_") {
        checkpoint.held.push(SourceObject::Secret(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name.starts_with("token_") {
        checkpoint.held.push(SourceObject::Token(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name.starts_with("claim_") {
        checkpoint.held.push(SourceObject::Claim(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name == API_SERVICE_FILE {
        checkpoint.held.push(SourceObject::ApiService(Arc::new(serde_json::from_slice(bytes)?)));
    }
    Ok(())
}

/// Writes the entries that differ and removes the obsolete files. Returns what is on disk afterwards, and the first
/// error.
fn save(
    path: &Path,
    mut written: BTreeMap<String, Entry>,
    wanted: &BTreeMap<String, Entry>,
) -> (BTreeMap<String, Entry>, Option<io::Error>) {
    let mut first_error = None;
    for (file, entry_value) in wanted {
        if written.get(file).is_some_and(|before| before.is_same(entry_value)) {
            continue;
        }
        let text = entry_value.text().map_err(io::Error::from);
        match text.and_then(|text| stored::save(&path.join(file), &text)) {
            Ok(()) => drop(written.insert(file.clone(), entry_value.clone())),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    written.retain(|file, _| {
        if wanted.contains_key(file) {
            return true;
        }
        match fs::remove_file(path.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                first_error = first_error.take().or(Some(error));
                true
            }
            _ => false,
        }
    });
    (written, first_error)
}
