//! `v1beta3` pods: v1 pods with `status.host`.
//!
//! `status.host` and `spec.nodeName` hold the same value, which is stored in `spec.nodeName`. A host in a
//! request is read as `spec.nodeName`.

use api::field_error::FieldError;
use api::shape::Shape;
use serde_json::{Map, Value};

use crate::resource::{Conversion, Schema};

const SHOWN: &str = "v1beta3";
const STORED: &str = "v1";

/// Converts between v1beta3 and v1 pods.
pub(super) struct PodsV1beta3;

impl Conversion for PodsV1beta3 {
    fn to_served(&self, stored: Map<String, Value>) -> Map<String, Value> {
        let mut pod = versioned(stored, SHOWN);
        if let Some(host) = node(&pod).map(str::to_owned) {
            let status = pod.entry("status").or_insert_with(|| Value::Object(Map::new()));
            if let Some(status) = status.as_object_mut() {
                status.insert("host".to_owned(), host.into());
            }
        }
        pod
    }

    fn to_stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        let mut pod = versioned(shown, STORED);
        take_host(&mut pod);
        pod
    }
}

/// Schema of v1beta3 pods: the v1 fields and `status.host`.
pub(super) struct Fields;

impl Schema for Fields {
    fn shape(&self) -> Shape<'_> {
        api::schema::shape(STORED, "Pod")
    }

    fn prune(&self, pod: &mut Map<String, Value>) -> Vec<String> {
        let host = take_host(pod);
        let mut unknown = api::schema::prune(pod, STORED, "Pod");
        match (host, node(pod)) {
            (Some(host), None) => {
                let spec = pod.entry("spec").or_insert_with(|| Value::Object(Map::new()));
                if let Some(spec) = spec.as_object_mut() {
                    spec.insert("nodeName".to_owned(), host.into());
                }
            }
            // A host that contradicts `spec.nodeName` is reported as an unknown field.
            (Some(host), Some(node)) if host != node => unknown.push("status.host".to_owned()),
            _ => {}
        }
        unknown
    }

    fn fit(&self, pod: &mut Map<String, Value>) -> Vec<FieldError> {
        api::schema::normalize(pod, STORED, "Pod")
    }
}

fn versioned(mut pod: Map<String, Value>, api_version: &str) -> Map<String, Value> {
    pod.insert("apiVersion".to_owned(), api_version.into());
    pod
}

/// Returns `spec.nodeName`; `None` if it is empty.
fn node(pod: &Map<String, Value>) -> Option<&str> {
    let node = pod.get("spec")?.get("nodeName")?.as_str()?;
    Some(node).filter(|node| !node.is_empty())
}

/// Removes and returns `status.host`.
fn take_host(pod: &mut Map<String, Value>) -> Option<String> {
    let host = pod.get_mut("status")?.as_object_mut()?.remove("host")?;
    host.as_str().filter(|host| !host.is_empty()).map(str::to_owned)
}
