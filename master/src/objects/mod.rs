//! Objects of the Kubernetes API as structs that hold only the fields that the control plane reads.
//!
//! A struct is decoded from the JSON of a list or watch, and unknown fields are skipped. Fields may be absent. Lists,
//! maps and times may also be null, because API servers written in Go send them so. A component that keeps many objects
//! in memory declares a smaller root struct of its own from the parts here.

pub mod autoscaling;
pub mod certificates;
pub mod controller_revision;
pub mod coordination;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod event;
pub mod job;
pub mod labels;
pub mod meta;
pub mod node;
pub mod node_affinity;
pub mod pod;
pub mod quota;
pub mod rbac;
pub mod replica_set;
pub mod resources;
pub mod selector;
pub mod service;
pub mod stateful_set;
pub mod template;
pub mod values;
pub mod volume;
pub mod workload;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::certificates::CertificateSigningRequest;
pub use self::controller_revision::ControllerRevision;
pub use self::coordination::Lease;
pub use self::cron_job::CronJob;
pub use self::daemon_set::DaemonSet;
pub use self::deployment::Deployment;
pub use self::event::Event;
pub use self::job::Job;
pub use self::meta::{
    AnnotatedObject, Condition, Conditioned, ObjectMeta, OwnerReference, PartialObject, Spec,
};
pub use self::node::{Node, Taint, Toleration};
pub use self::pod::Pod;
pub use self::replica_set::ReplicaSet;
pub use self::selector::LabelSelector;
pub use self::stateful_set::StatefulSet;
pub use self::values::{IntOrString, List, StringMap, time};

/// Minimum interval between two reports of objects that cannot be decoded.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Decodes an object of the API server's cache, whose schema was checked. See [`read`].
pub fn decode<T: DeserializeOwned + Default>(json: &[u8]) -> T {
    serde_json::from_slice(json).unwrap_or_else(|error| {
        serde_json::from_slice::<Identity>(json).unwrap_or_default().report_undecodable(&error);
        T::default()
    })
}

/// Reads the fields of an object that the API server has checked against its schema. An object with a field of another
/// type, which the schema check rejects, is logged and reads as an empty one.
pub fn read<T: DeserializeOwned + Default>(object: &Map<String, Value>) -> T {
    T::deserialize(object).unwrap_or_else(|error| {
        Identity::deserialize(object).unwrap_or_default().report_undecodable(&error);
        T::default()
    })
}

/// What identifies an object and its version.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Kind; empty in a list of a built-in kind.
    pub kind: String,
    pub metadata: IdentityMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IdentityMetadata {
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
}

impl Identity {
    /// Logs that the object cannot be decoded. At most one object per minute is logged.
    pub fn report_undecodable(&self, error: &serde_json::Error) {
        static LAST: Mutex<Option<Instant>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < REPORT_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let Self { kind, metadata: IdentityMetadata { namespace, name, .. } } = self;
        tracing::warn!(kind, namespace, name, %error, "cannot decode an object; ignoring its fields");
    }
}
