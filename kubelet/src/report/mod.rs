//! What the kubelet has to tell: the latest status of each pod and the events worth a person's attention.
//!
//! Whoever knows something puts it into the [`Outbox`]; `status` takes it out. Nobody waits for anybody.

mod events;
mod latest;
mod node;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::Notify;

use crate::observed::{PodUid, Timestamp};
pub use events::{Event, Events};
pub use latest::{Latest, Reports};
pub use node::{NodeCondition, NodeImage, NodeInfo, NodeReport};

/// Events kept until `status` takes them; a burst beyond it loses its oldest, which are counted.
const NOTES_LIMIT: usize = 4096;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Something a person may have to look at.
    Warning,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct About {
    /// `Pod` or `Node`.
    pub kind: &'static str,
    /// Namespace, empty for a node.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID; the name again for a node.
    pub uid: String,
    /// `spec.containers{web}` and the like, empty for the whole object.
    pub field_path: String,
}

impl About {
    /// The pod itself.
    pub fn pod(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Self {
            kind: "Pod",
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            field_path: String::new(),
        }
    }

    /// One container of the pod.
    pub fn container(pod: &Pod, container: &str) -> Self {
        let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let mut ephemerals = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        let list = if inits.any(|init| init.name == container) {
            "initContainers"
        } else if ephemerals.any(|ephemeral| ephemeral.name == container) {
            "ephemeralContainers"
        } else {
            "containers"
        };
        Self { field_path: format!("spec.{list}{{{container}}}"), ..Self::pod(pod) }
    }

    /// The node.
    pub fn node(name: &str) -> Self {
        Self {
            kind: "Node",
            namespace: String::new(),
            name: name.to_owned(),
            uid: name.to_owned(),
            field_path: String::new(),
        }
    }
}

/// An event, as `kubectl get events` will show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What it is about.
    pub about: About,
    /// Good news or not.
    pub severity: Severity,
    /// One word in CamelCase, those of the stock kubelet where it has one.
    pub reason: Cow<'static, str>,
    /// What happened, to what, and what to do.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// The latest about one pod.
#[derive(Clone, Debug)]
pub enum Report {
    /// The pod as it is wanted, and its status.
    Status {
        /// The pod, without status.
        pod: Arc<Pod>,
        /// Its status.
        status: Arc<PodStatus>,
        /// When it began to be ended, and the grace it was given in seconds.
        deletion: Option<(Timestamp, i64)>,
    },
    /// The pod is no longer on this node and all its parts are gone.
    Gone,
}

/// Everything taken out of the outbox at once.
#[derive(Debug, Default)]
pub struct Mail {
    /// The latest report of each pod that has a new one.
    pub reports: BTreeMap<PodUid, Report>,
    /// The latest about the node, when there is something new.
    pub node: Option<Box<NodeReport>>,
    /// What the sources refuse now, a line each, when that has changed.
    pub problems: Option<Vec<String>>,
    /// Events in the order they happened.
    pub notes: VecDeque<Note>,
    /// Events lost to [`NOTES_LIMIT`].
    pub lost: u64,
}

impl Mail {
    fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.notes.is_empty() && self.node.is_none() && self.problems.is_none()
    }
}

/// Where reports and events wait to be taken: the newest report of a pod replaces the older one.
#[derive(Debug, Default)]
pub struct Outbox {
    mail: Mutex<Mail>,
    arrived: Notify,
    copied: OnceLock<Arc<Reports>>,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Puts in what a cluster alone is to know of a pod: on the node another one has its name.
    pub fn tell_cluster(&self, uid: &PodUid, report: &Report) {
        if let Some(reports) = self.copied.get() {
            reports.put(uid, report);
        }
    }

    /// Puts in the latest about a pod.
    pub fn report(&self, uid: PodUid, report: Report) {
        self.tell_cluster(&uid, &report);
        self.lock().reports.insert(uid, report);
        self.arrived.notify_one();
    }

    /// What is reported of pods from now on, once more, for whoever tells a cluster.
    pub fn copied(&self) -> Arc<Reports> {
        self.copied.get_or_init(Arc::default).clone()
    }

    /// Puts in the latest about the node.
    pub fn node(&self, report: NodeReport) {
        self.lock().node = Some(Box::new(report));
        self.arrived.notify_one();
    }

    /// Puts in what the sources refuse now, all of it, a line each; nothing when all is well again.
    pub fn problems(&self, problems: Vec<String>) {
        self.lock().problems = Some(problems);
        self.arrived.notify_one();
    }

    /// Puts in an event.
    pub fn note(
        &self,
        about: About,
        severity: Severity,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let note =
            Note { about, severity, reason: reason.into(), message: message.into(), at: Timestamp::now() };
        let mut mail = self.lock();
        if mail.notes.len() == NOTES_LIMIT {
            mail.notes.pop_front();
            mail.lost += 1;
        }
        mail.notes.push_back(note);
        drop(mail);
        self.arrived.notify_one();
    }

    /// Waits until there is something, then takes all of it.
    pub async fn take(&self) -> Mail {
        loop {
            let mail = std::mem::take(&mut *self.lock());
            if !mail.is_empty() {
                return mail;
            }
            self.arrived.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
