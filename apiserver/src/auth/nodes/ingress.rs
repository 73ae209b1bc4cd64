//! Access of nodes that serve Ingresses to the TLS Secrets that Ingresses of the built-in class name. Pure.
//!
//! An administrator grants it with a label of the Node that the kubelet cannot set itself: the admission plugin
//! `NodeRestriction` rejects labels with this prefix from nodes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::index::{Kind, Object};
use crate::auth::synced_index;
use crate::watch_cache;

/// Label of a Node, with the value `true`, that permits the node to serve Ingresses with their TLS Secrets.
pub const INGRESS_LABEL: &str = "node-restriction.kubernetes.io/ingress";
/// Class of the Ingresses that nodes serve.
pub const INGRESS_CLASS: &str = "coracle";
/// Annotation that named the class before `spec.ingressClassName` existed. It takes precedence, as in stock controllers.
pub const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Kinds of objects in the index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Indexed {
    /// `nodes`.
    Node,
    /// `ingresses`.
    Ingress,
}

/// Nodes that may serve Ingresses, and the Secrets of these Ingresses.
#[derive(Debug, Default)]
pub(super) struct IngressIndex {
    nodes: HashSet<Box<str>>,
    /// Secrets by namespace and name of the Ingress.
    of_ingresses: HashMap<(Box<str>, Box<str>), Vec<Object>>,
    /// How many Ingresses name a Secret.
    counts: HashMap<Object, usize>,
}

impl IngressIndex {
    /// Whether the node may read this object as the Secret of an Ingress.
    pub fn reaches(&self, node: &str, object: &Object) -> bool {
        object.kind == Kind::Secret && self.nodes.contains(node) && self.counts.contains_key(object)
    }

    fn put_node(&mut self, name: &str, label: Option<&str>) {
        match label {
            Some("true") => drop(self.nodes.insert(name.into())),
            _ => drop(self.nodes.remove(name)),
        }
    }

    fn put_ingress(&mut self, namespace: &str, name: &str, ingress: &Map<String, Value>) {
        self.remove_ingress(namespace, name);
        let secrets = secrets(namespace, ingress);
        for secret in &secrets {
            *self.counts.entry(secret.clone()).or_default() += 1;
        }
        if !secrets.is_empty() {
            self.of_ingresses.insert((namespace.into(), name.into()), secrets);
        }
    }

    fn remove_ingress(&mut self, namespace: &str, name: &str) {
        for secret in self.of_ingresses.remove(&(namespace.into(), name.into())).unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&secret) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&secret);
                }
            }
        }
    }
}

/// Whether nodes serve this Ingress: its class is [`INGRESS_CLASS`].
pub fn is_of_built_in_class(ingress: &Map<String, Value>) -> bool {
    let annotation =
        ingress.get("metadata").and_then(|of| of.get("annotations")?.get(INGRESS_CLASS_ANNOTATION));
    let class = annotation.or_else(|| ingress.get("spec")?.get("ingressClassName"));
    class.and_then(Value::as_str) == Some(INGRESS_CLASS)
}

/// The Secrets that an Ingress names; none if its class is another one.
fn secrets(namespace: &str, ingress: &Map<String, Value>) -> Vec<Object> {
    if !is_of_built_in_class(ingress) {
        return Vec::new();
    }
    let spec = ingress.get("spec");
    let tls = spec.and_then(|spec| spec.get("tls")?.as_array()).into_iter().flatten();
    let names = tls.filter_map(|tls| tls.get("secretName")?.as_str()).filter(|name| !name.is_empty());
    names.map(|name| Object::new(Kind::Secret, namespace, name)).collect()
}

impl synced_index::Index for IngressIndex {
    type Kind = Indexed;
    const KINDS: &'static [Indexed] = &[Indexed::Node, Indexed::Ingress];

    fn resource(kind: Indexed) -> String {
        match kind {
            Indexed::Node => "nodes".to_owned(),
            Indexed::Ingress => "ingresses.networking.k8s.io".to_owned(),
        }
    }

    fn upsert(&mut self, kind: Indexed, object: &watch_cache::Object) {
        match kind {
            Indexed::Node => self.put_node(object.name(), object.label(INGRESS_LABEL)),
            Indexed::Ingress => {
                let ingress = object.decode_without_managed_fields();
                self.put_ingress(object.namespace(), object.name(), &ingress);
            }
        }
    }

    fn remove(&mut self, kind: Indexed, namespace: &str, name: &str) {
        match kind {
            Indexed::Node => self.put_node(name, None),
            Indexed::Ingress => self.remove_ingress(namespace, name),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the access to Secrets of Ingresses.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn put(index: &mut IngressIndex, name: &str, class: &str, secret: &str) {
        let ingress = json!({"spec": {"ingressClassName": class, "tls": [{"secretName": secret}]}});
        index.put_ingress("shop", name, ingress.as_object().unwrap());
    }

    #[test]
    fn only_labelled_nodes_read_secrets_of_ingresses_of_the_class() {
        let mut index = IngressIndex::default();
        put(&mut index, "web", INGRESS_CLASS, "cert");
        put(&mut index, "other", "nginx", "other");
        let cert = Object::new(Kind::Secret, "shop", "cert");
        assert!(!index.reaches("n1", &cert), "no label");
        index.put_node("n1", Some("false"));
        assert!(!index.reaches("n1", &cert), "another value");
        index.put_node("n1", Some("true"));
        assert!(index.reaches("n1", &cert));
        assert!(!index.reaches("n2", &cert), "another node");
        assert!(!index.reaches("n1", &Object::new(Kind::Secret, "shop", "other")), "another class");
        assert!(!index.reaches("n1", &Object::new(Kind::Secret, "else", "cert")), "another namespace");
        assert!(!index.reaches("n1", &Object::new(Kind::ConfigMap, "shop", "cert")), "another kind");
        index.put_node("n1", None);
        assert!(!index.reaches("n1", &cert), "the label was removed");
    }

    #[test]
    fn access_ends_with_the_last_ingress_that_names_the_secret() {
        let mut index = IngressIndex::default();
        index.put_node("n1", Some("true"));
        let cert = Object::new(Kind::Secret, "shop", "cert");
        put(&mut index, "a", INGRESS_CLASS, "cert");
        put(&mut index, "b", INGRESS_CLASS, "cert");
        put(&mut index, "a", "nginx", "cert");
        assert!(index.reaches("n1", &cert));
        index.remove_ingress("shop", "b");
        assert!(!index.reaches("n1", &cert));
        assert!(index.counts.is_empty() && index.of_ingresses.is_empty());
    }
}
