//! Objects of the Kubernetes API as structs that hold only the fields that the control plane reads.
//!
//! A struct is decoded from the JSON of a list or watch, and unknown fields are skipped. Fields may be absent. Lists,
//! maps and times may also be null, because API servers written in Go send them so. A component that keeps many objects
//! in memory declares a smaller root struct of its own from the parts here.

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

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::coordination::Lease;
pub use self::meta::{AnnotatedObject, Condition, ObjectMeta, OwnerReference, PartialObject, Spec};
pub use self::node::{Node, Taint, Toleration};
pub use self::pod::Pod;
pub use self::selector::LabelSelector;
pub use self::values::{IntOrString, List, StringMap, time};

/// Decodes an object of the API server's cache, whose schema was checked. See [`read`].
pub fn decode<T: DeserializeOwned + Default>(json: &[u8]) -> T {
    serde_json::from_slice(json).unwrap_or_default()
}

/// Reads the fields of an object that the API server has checked against its schema. An object with a field of another
/// type, which the schema check rejects, reads as an empty one.
pub fn read<T: DeserializeOwned + Default>(object: &Map<String, Value>) -> T {
    T::deserialize(object).unwrap_or_default()
}
