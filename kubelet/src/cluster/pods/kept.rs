//! The pods of the master and what they refer to, on the disk: a machine that starts while no master answers runs them all the same.

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

use super::book::{Lasting, Seen};
use super::line::is_safe;
use super::shelf;
use crate::cluster::{directory, kept};
use crate::desired::Held;
use crate::disk;

/// Longest file that is read: what a store holds of an object is 1.5 MiB at most, and is spelled longer in JSON.
const LONGEST_BYTES: u64 = 8 << 20;
/// What changes within this time is written together.
const GATHER: Duration = Duration::from_secs(1);
/// What could not be written is tried again after so long.
const AGAIN: Duration = Duration::from_secs(30);
/// The file of which master was believed last.
const SEEN: &str = "seen.json";
/// The file of the Service by which pods find the API.
const API_SERVICE: &str = "service.json";

/// All that is kept.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Pods.
    pub pods: Vec<Lasting>,
    /// What they refer to.
    pub held: Vec<Held>,
    /// Which master was believed last.
    pub seen: Seen,
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Kept(PathBuf);

/// What one file holds.
#[derive(Clone, Debug)]
enum Part {
    Pod(Lasting),
    Held(Held),
    Seen(Seen),
}

impl Part {
    /// The name of its file; `None` where it cannot be one.
    fn file(&self) -> Option<String> {
        match self {
            Self::Pod(Lasting { pod, .. }) => {
                let uid = pod.metadata.uid.as_deref().filter(|uid| is_safe(uid))?;
                Some(format!("pod_{uid}.json"))
            }
            Self::Held(Held::Token(token)) => {
                let key = TokenKey::of(token);
                let which = Sha256::digest(format!("{} {}", key.seconds, key.audience));
                let which = hex::encode(&which[..8]);
                is_safe(&key.pod_uid).then(|| format!("token_{}_{which}.json", key.pod_uid))
            }
            Self::Held(Held::ApiService(_)) => Some(API_SERVICE.to_owned()),
            Self::Held(held) => {
                let object = shelf::name(held)?;
                let kind = if object.kind == Kind::Secret { "secret" } else { "configmap" };
                let are_safe = is_safe(&object.namespace) && is_safe(&object.name);
                are_safe.then(|| format!("{kind}_{}_{}.json", object.namespace, object.name))
            }
            Self::Seen(_) => Some(SEEN.to_owned()),
        }
    }

    fn text(&self) -> serde_json::Result<String> {
        match self {
            Self::Pod(Lasting { pod, is_unclaimed, is_told }) => {
                let pod = serde_json::to_value(pod)?;
                Ok(json!({"isUnclaimed": is_unclaimed, "isTold": is_told, "pod": pod}).to_string())
            }
            Self::Held(held) => held.json().map(|value| value.to_string()),
            Self::Seen(seen) => serde_json::to_string(seen),
        }
    }

    /// Whether the other says the same, as far as that is seen without looking into it.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(one), Self::Pod(two)) => {
                let of = |pod: &Lasting| (Arc::as_ptr(&pod.pod), pod.is_unclaimed, pod.is_told);
                of(one) == of(two)
            }
            (Self::Held(one), Self::Held(two)) => one.is_same(two),
            (Self::Seen(one), Self::Seen(two)) => one == two,
            _ => false,
        }
    }
}

impl Picture {
    /// What of it is that node's: a directory of which the node was renamed has pods that its master gave to another one.
    pub fn of(&self, node: &str) -> Self {
        let is_own =
            |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node));
        let mut own = self.clone();
        own.pods.retain(|lasting| is_own(&lasting.pod));
        if own.pods.len() < self.pods.len() {
            // It was not believed as this node's master.
            own.seen = Seen::default();
        }
        own
    }

    fn parts(&self) -> BTreeMap<String, Part> {
        let pods = self.pods.iter().cloned().map(Part::Pod);
        let held = self.held.iter().cloned().map(Part::Held);
        let all = pods.chain(held).chain([Part::Seen(self.seen.clone())]);
        all.filter_map(|part| Some((part.file()?, part))).collect()
    }
}

impl Kept {
    /// That of a kubelet's directory.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("pods"))
    }

    /// What it holds. What does not read is told in the log and left out.
    pub async fn read(&self) -> Picture {
        let path = self.0.clone();
        disk::run(move || load(&path)).await
    }

    /// Keeps it up to date, beginning with what it holds, for as long as somebody tells; only what has changed is written.
    pub async fn write(self, held: Picture, mut told: watch::Receiver<Arc<Picture>>) {
        let mut written = held.parts();
        let mut is_whole = true;
        loop {
            let changed = async {
                if told.changed().await.is_err() {
                    return false;
                }
                tokio::time::sleep(GATHER).await;
                true
            };
            tokio::select! {
                goes_on = changed => if !goes_on { return },
                () = tokio::time::sleep(AGAIN), if !is_whole => {}
            }
            let (path, wanted) = (self.0.clone(), told.borrow_and_update().parts());
            let before = std::mem::take(&mut written);
            let done = disk::run(move || save(&path, before, &wanted)).await;
            written = done.0;
            is_whole = done.1.is_none();
            if let Some(error) = done.1 {
                let path = self.0.display();
                tracing::warn!(%path, %error, "the pods of the master cannot be written down; a restart without a master forgets them");
            }
        }
    }
}

fn load(path: &Path) -> Picture {
    let mut picture = Picture::default();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let file = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".json") {
            continue;
        }
        let taken = bytes(&file).and_then(|bytes| take(&mut picture, &name, &bytes));
        if let Err(error) = taken {
            let path = file.display();
            tracing::warn!(%path, %error, "a file of what the master wants here is lost; going on without it");
        }
    }
    picture
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes what one file holds.
fn take(picture: &mut Picture, name: &str, bytes: &[u8]) -> io::Result<()> {
    if name == SEEN {
        picture.seen = serde_json::from_slice(bytes)?;
    } else if name.starts_with("pod_") {
        let value: Value = serde_json::from_slice(bytes)?;
        let pod = Pod::deserialize(&value["pod"])?;
        // An older kubelet began whatever it had written down.
        let (is_unclaimed, is_told) = (value["isUnclaimed"] == true, value["isTold"] != false);
        picture.pods.push(Lasting { pod: Arc::new(pod), is_unclaimed, is_told });
    } else if name.starts_with("configmap_") {
        picture.held.push(Held::ConfigMap(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name.starts_with("secret_") {
        picture.held.push(Held::Secret(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name.starts_with("token_") {
        picture.held.push(Held::Token(Arc::new(serde_json::from_slice(bytes)?)));
    } else if name == API_SERVICE {
        picture.held.push(Held::ApiService(Arc::new(serde_json::from_slice(bytes)?)));
    }
    Ok(())
}

/// Writes what differs and removes what is no more; what is there then, and the first thing that went wrong.
fn save(
    path: &Path,
    mut written: BTreeMap<String, Part>,
    wanted: &BTreeMap<String, Part>,
) -> (BTreeMap<String, Part>, Option<io::Error>) {
    let mut trouble = None;
    for (file, part) in wanted {
        if written.get(file).is_some_and(|before| before.is_same(part)) {
            continue;
        }
        let text = part.text().map_err(io::Error::from);
        match text.and_then(|text| kept::save(&path.join(file), &text)) {
            Ok(()) => drop(written.insert(file.clone(), part.clone())),
            Err(error) => trouble = trouble.or(Some(error)),
        }
    }
    written.retain(|file, _| {
        if wanted.contains_key(file) {
            return true;
        }
        match fs::remove_file(path.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                trouble = trouble.take().or(Some(error));
                true
            }
            _ => false,
        }
    });
    (written, trouble)
}
