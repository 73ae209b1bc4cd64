//! Pods of v1beta3: those of v1, whose host stands in their status as well.
//!
//! `status.host` and `spec.nodeName` are one fact, which is stored as the latter. What is sent is read as if it had said so.

use api::fault::Fault;
use api::shape::Shape;
use serde_json::{Map, Value};

use crate::resource::{Schema, View};

const SHOWN: &str = "v1beta3";
const STORED: &str = "v1";

/// Stored pods with their host.
pub(super) struct Hosted;

impl View for Hosted {
    fn shown(&self, stored: Map<String, Value>) -> Map<String, Value> {
        let mut pod = versioned(stored, SHOWN);
        if let Some(host) = node(&pod).map(str::to_owned) {
            let status = pod.entry("status").or_insert_with(|| Value::Object(Map::new()));
            if let Some(status) = status.as_object_mut() {
                status.insert("host".to_owned(), host.into());
            }
        }
        pod
    }

    fn stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        let mut pod = versioned(shown, STORED);
        take_host(&mut pod);
        pod
    }
}

/// The fields of a pod of v1, and the host.
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
            // One fact cannot be two: whoever wants to know hears of it.
            (Some(host), Some(node)) if host != node => unknown.push("status.host".to_owned()),
            _ => {}
        }
        unknown
    }

    fn fit(&self, pod: &mut Map<String, Value>) -> Vec<Fault> {
        api::schema::fit(pod, STORED, "Pod")
    }
}

fn versioned(mut pod: Map<String, Value>, api_version: &str) -> Map<String, Value> {
    pod.insert("apiVersion".to_owned(), api_version.into());
    pod
}

/// `spec.nodeName`, unless it is empty.
fn node(pod: &Map<String, Value>) -> Option<&str> {
    let node = pod.get("spec")?.get("nodeName")?.as_str()?;
    Some(node).filter(|node| !node.is_empty())
}

/// Takes `status.host` out.
fn take_host(pod: &mut Map<String, Value>) -> Option<String> {
    let host = pod.get_mut("status")?.as_object_mut()?.remove("host")?;
    host.as_str().filter(|host| !host.is_empty()).map(str::to_owned)
}
