//! Objects of the Kubernetes API as structs that hold only the fields that the control plane reads.
//!
//! A struct is decoded from the JSON of a list or watch, and unknown fields are skipped. Fields may be absent. Lists,
//! maps and times may also be null, because API servers written in Go send them so. A component that keeps many objects
//! in memory declares a smaller root struct of its own from the parts here.

pub mod certificates;
pub mod coordination;
pub mod meta;
pub mod node;
pub mod pod;
pub mod quota;
pub mod rbac;
pub mod resources;
pub mod selector;
pub mod service;
pub mod values;
pub mod volume;
pub mod workload;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::certificates::CertificateSigningRequest;
pub use self::coordination::Lease;
pub use self::meta::{
    AnnotatedObject, Condition, Conditioned, ObjectMeta, OwnerReference, PartialObject, Spec,
};
pub use self::node::{Node, Taint, Toleration};
pub use self::pod::Pod;
pub use self::selector::LabelSelector;
pub use self::values::{IntOrString, List, StringMap, time};

/// Minimum interval between two reports of objects that cannot be decoded.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Decodes an object of the API server's cache, whose schema was checked. See [`read`].
pub fn decode<T: DeserializeOwned + Default>(json: &[u8]) -> T {
    serde_json::from_slice(json).unwrap_or_else(|error| {
        report::<T>(&serde_json::from_slice(json).unwrap_or_default(), &error);
        T::default()
    })
}

/// Reads the fields of an object that the API server has checked against its schema. An object with a field of another
/// type, which the schema check rejects, is logged and reads as an empty one.
pub fn read<T: DeserializeOwned + Default>(object: &Map<String, Value>) -> T {
    T::deserialize(object).unwrap_or_else(|error| {
        report::<T>(&Identity::deserialize(object).unwrap_or_default(), &error);
        T::default()
    })
}

/// What identifies an object in the log.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    kind: String,
    metadata: IdentityMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IdentityMetadata {
    namespace: String,
    name: String,
}

/// Logs that an object cannot be decoded, at most once per interval.
fn report<T>(object: &Identity, error: &serde_json::Error) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let now = Instant::now();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_some_and(|last| now.duration_since(last) < REPORT_INTERVAL) {
        return;
    }
    *last = Some(now);
    let Identity { kind, metadata: IdentityMetadata { namespace, name } } = object;
    let into = std::any::type_name::<T>();
    tracing::warn!(kind, namespace, name, into, %error, "cannot decode an object; its fields count as absent");
}
