//! Reports of the kubelet: the latest status of each pod and of the node, and events.
//!
//! Each component puts its reports into the [`Outbox`], and `status` takes them. Neither side waits for the other.

mod ended;
mod events;
mod latest;
mod node;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::Notify;

use crate::observed::{PodUid, Timestamp};
pub use ended::{EndedPod, EndedPods};
pub use events::{Event, Events};
pub use latest::{Latest, Reports};
pub use node::{LOCAL_PATH_DIRECTORY, LOCAL_VOLUMES, NodeCondition, NodeImage, NodeInfo, NodeReport};

/// Maximum number of events that wait for `status`. Beyond it the oldest event is dropped and counted.
const NOTES_LIMIT: usize = 4096;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A normal event.
    Normal,
    /// An event that may need attention.
    Warning,
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct About {
    /// The kind: `Pod` or `Node`.
    pub kind: &'static str,
    /// The namespace; empty for a node.
    pub namespace: String,
    pub name: String,
    /// The UID. For a node, it is the name.
    pub uid: String,
    /// The field that the event is about, such as `spec.containers{web}`. Empty for the whole object.
    pub field_path: String,
}

impl About {
    /// The object as `namespace/name` for log messages; only the name for objects without a namespace.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

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

/// An event, as `kubectl get events` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The object that the event is about.
    pub about: About,
    /// Normal or Warning.
    pub severity: Severity,
    /// The reason in CamelCase. It is the stock one if there is one.
    pub reason: Cow<'static, str>,
    /// The message: what happened, to which object, and what to do.
    pub message: String,
    /// When the event happened.
    pub at: Timestamp,
}

/// The latest report of a pod.
#[derive(Clone, Debug)]
pub enum Report {
    /// The pod is on this node. The report has its status.
    Status {
        /// The pod, without status.
        pod: Arc<Pod>,
        status: Arc<PodStatus>,
        /// When the deletion began, and the grace period in seconds.
        deletion: Option<(Timestamp, i64)>,
    },
    /// The pod is no longer on this node, and nothing of it is left.
    Gone,
}

/// The content of the outbox, which the receiver takes at once.
#[derive(Debug, Default)]
pub struct Mail {
    /// The latest report of each pod that has a new one.
    pub reports: BTreeMap<PodUid, Report>,
    /// The latest report of the node, if it is new.
    pub node: Option<Box<NodeReport>>,
    /// The current problems of the pod sources, one line each, if they changed.
    pub problems: Option<Vec<String>>,
    /// The machine that uses this node's name in the cluster, if that changed. The inner `None` means that no other
    /// machine does.
    pub name_conflict: Option<Option<String>>,
    /// Pods with a new version. They are processed before the events.
    pub edited: BTreeSet<PodUid>,
    /// Events in the order in which they happened.
    pub notes: VecDeque<Note>,
    /// Number of events that were dropped because of [`NOTES_LIMIT`].
    pub lost: u64,
}

impl Mail {
    fn is_empty(&self) -> bool {
        let nothing_of_node = self.node.is_none() && self.problems.is_none() && self.name_conflict.is_none();
        self.reports.is_empty() && self.edited.is_empty() && self.notes.is_empty() && nothing_of_node
    }
}

/// Queue of reports and events. A newer report of a pod replaces the older one.
#[derive(Debug, Default)]
pub struct Outbox {
    mail: Mutex<Mail>,
    arrived: Notify,
    copied: OnceLock<Arc<Reports>>,
}

impl Outbox {
    /// Creates an empty outbox.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Reports a pod only to the API server, because another pod has its name on the node.
    pub fn report_to_cluster(&self, uid: &PodUid, report: &Report) {
        if let Some(reports) = self.copied.get() {
            reports.put(uid, report);
        }
    }

    pub fn report(&self, uid: PodUid, report: Report) {
        self.report_to_cluster(&uid, &report);
        self.lock().reports.insert(uid, report);
        self.arrived.notify_one();
    }

    /// Returns a second queue, which gets all later pod reports, for the status manager.
    pub fn copied(&self) -> Arc<Reports> {
        self.copied.get_or_init(Arc::default).clone()
    }

    pub fn node(&self, report: NodeReport) {
        self.lock().node = Some(Box::new(report));
        self.arrived.notify_one();
    }

    /// Records that a source has a new version of the pod.
    pub fn edited(&self, uid: PodUid) {
        self.lock().edited.insert(uid);
        self.arrived.notify_one();
    }

    /// Replaces the problems of the pod sources, one line each.
    pub fn problems(&self, problems: Vec<String>) {
        self.lock().problems = Some(problems);
        self.arrived.notify_one();
    }

    /// Reports that another machine uses this node's name in the cluster. `None` reports that none does.
    pub fn name_conflict(&self, conflict: Option<String>) {
        self.lock().name_conflict = Some(conflict);
        self.arrived.notify_one();
    }

    /// Records an event.
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

    /// Waits until the outbox has content, and then returns and removes all of it.
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
