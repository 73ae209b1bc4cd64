//! ConfigMaps and Secrets that a pod cannot do without, and that none of the manifests holds.

use std::collections::BTreeSet;

use api::references::References;
use k8s_openapi::api::core::v1::{Container, Pod, Volume};

/// Where a pod refers to what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// The field.
    pub path: String,
    /// What is missing.
    pub what: String,
    /// What a person can do about it.
    pub remedy: &'static str,
}

const WAITS: &str =
    "put it beside the pod, or check it together with what holds it; the pod waits until the node has it";
const PULLS_WITHOUT: &str = "put it beside the pod, or check it together with what holds it; the pod does not wait for it: \
                             until the node has it, images are pulled without it";

/// Everything the pod lacks, each object or key once.
pub(super) fn of(pod: &Pod, references: &References) -> Vec<Missing> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut search = Search { namespace, references, told: BTreeSet::new(), missing: Vec::new() };
    let Some(spec) = &pod.spec else { return Vec::new() };
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        search.container(&format!("spec.initContainers[{at}]"), container);
    }
    for (at, container) in spec.containers.iter().enumerate() {
        search.container(&format!("spec.containers[{at}]"), container);
    }
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        search.volume(&format!("spec.volumes[{at}]"), volume);
    }
    for (at, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let path = format!("spec.imagePullSecrets[{at}].name");
        search.look_for(path, Kind::Secret, Some(&secret.name), None, PULLS_WITHOUT);
    }
    search.missing
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

struct Search<'a> {
    namespace: &'a str,
    references: &'a References,
    told: BTreeSet<String>,
    missing: Vec<Missing>,
}

impl Search<'_> {
    fn container(&mut self, path: &str, container: &Container) {
        for (at, from) in container.env_from.iter().flatten().enumerate() {
            let path = format!("{path}.envFrom[{at}]");
            if let Some(map) = from.config_map_ref.as_ref().filter(|map| map.optional != Some(true)) {
                self.need(format!("{path}.configMapRef.name"), Kind::ConfigMap, Some(&map.name), None);
            }
            if let Some(secret) = from.secret_ref.as_ref().filter(|secret| secret.optional != Some(true)) {
                self.need(format!("{path}.secretRef.name"), Kind::Secret, Some(&secret.name), None);
            }
        }
        for (at, variable) in container.env.iter().flatten().enumerate() {
            let Some(from) = &variable.value_from else { continue };
            let path = format!("{path}.env[{at}].valueFrom");
            if let Some(map) = from.config_map_key_ref.as_ref().filter(|map| map.optional != Some(true)) {
                let path = format!("{path}.configMapKeyRef");
                self.need(path, Kind::ConfigMap, Some(&map.name), Some(&map.key));
            }
            if let Some(secret) = from.secret_key_ref.as_ref().filter(|secret| secret.optional != Some(true))
            {
                self.need(
                    format!("{path}.secretKeyRef"),
                    Kind::Secret,
                    Some(&secret.name),
                    Some(&secret.key),
                );
            }
        }
    }

    fn volume(&mut self, path: &str, volume: &Volume) {
        if let Some(map) = volume.config_map.as_ref().filter(|map| map.optional != Some(true)) {
            self.need(format!("{path}.configMap.name"), Kind::ConfigMap, Some(&map.name), None);
        }
        if let Some(secret) = volume.secret.as_ref().filter(|secret| secret.optional != Some(true)) {
            let name = secret.secret_name.as_deref();
            self.need(format!("{path}.secret.secretName"), Kind::Secret, name, None);
        }
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for (at, source) in sources.enumerate() {
            let path = format!("{path}.projected.sources[{at}]");
            if let Some(map) = source.config_map.as_ref().filter(|map| map.optional != Some(true)) {
                self.need(format!("{path}.configMap.name"), Kind::ConfigMap, Some(&map.name), None);
            }
            if let Some(secret) = source.secret.as_ref().filter(|secret| secret.optional != Some(true)) {
                self.need(format!("{path}.secret.name"), Kind::Secret, Some(&secret.name), None);
            }
        }
    }

    /// Notes what is not there and what the pod waits for: the object, or a key of it.
    fn need(&mut self, path: String, kind: Kind, name: Option<&str>, key: Option<&str>) {
        self.look_for(path, kind, name, key, WAITS);
    }

    /// Notes what is not there.
    fn look_for(
        &mut self,
        path: String,
        kind: Kind,
        name: Option<&str>,
        key: Option<&str>,
        remedy: &'static str,
    ) {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        let object = format!("{} {}/{name}", kind.name(), self.namespace);
        let what = match (self.has(kind, name, key), key) {
            (None, _) => format!("none of these manifests holds the {object}"),
            (Some(false), Some(key)) => format!("the {object} has no key {key}"),
            (Some(_), _) => return,
        };
        if self.told.insert(what.clone()) {
            self.missing.push(Missing { path, what, remedy });
        }
    }

    /// Whether the object has the key; `None` without the object.
    fn has(&self, kind: Kind, name: &str, key: Option<&str>) -> Option<bool> {
        let Some(key) = key else {
            return match kind {
                Kind::ConfigMap => self.references.config_map(self.namespace, name).map(|_| true),
                Kind::Secret => self.references.secret(self.namespace, name).map(|_| true),
            };
        };
        match kind {
            Kind::ConfigMap => self.references.config_map(self.namespace, name).map(|map| {
                map.data.as_ref().is_some_and(|data| data.contains_key(key))
                    || map.binary_data.as_ref().is_some_and(|data| data.contains_key(key))
            }),
            Kind::Secret => self
                .references
                .secret(self.namespace, name)
                .map(|secret| secret.data.as_ref().is_some_and(|data| data.contains_key(key))),
        }
    }
}
