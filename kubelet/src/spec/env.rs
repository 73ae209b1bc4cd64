//! Environment variables of a container: literals, ConfigMaps, Secrets and fields, in the order of the manifest.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::expand::expand;
use api::references::References;
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource, Pod};

use super::facts::Facts;
use super::{ConfigError, Note};
use super::{fields, links, namespace};

/// The resolved variables of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// Names and values, in the order of the first occurrence of each name.
    vars: Vec<(String, String)>,
    index: BTreeMap<String, usize>,
    /// Variables for the API server's Service. They are kept until the container's own variables are resolved.
    links: Vec<(String, String)>,
    /// Notes about skipped keys, for events.
    pub notes: Vec<Note>,
}

/// The sources of the environment.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub pod: &'a Pod,
    /// Facts of the node.
    pub facts: &'a Facts,
    /// IP addresses of the running sandbox; empty if it has none.
    pub pod_ips: &'a [IpAddr],
    /// ConfigMaps and Secrets.
    pub references: &'a References,
}

impl Environment {
    /// Resolves the environment of a container.
    ///
    /// # Errors
    /// If a ConfigMap, Secret, key or field is missing. The error names it. A retry succeeds once it exists.
    pub fn of(sources: &Sources<'_>, container: &Container) -> Result<Self, ConfigError> {
        let links = sources.references.api_service.as_deref().map(links::of).unwrap_or_default();
        let mut env = Self { links, ..Self::default() };
        for from in container.env_from.iter().flatten() {
            env.add_all(sources, from)?;
        }
        for var in container.env.iter().flatten() {
            if let Some(value) = env.value_of(sources, container, var)? {
                env.set(&var.name, value);
            }
        }
        for (name, value) in std::mem::take(&mut env.links) {
            if env.get(&name).is_none() {
                env.set(&name, value);
            }
        }
        Ok(env)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        let own = self.index.get(name).map(|&at| self.vars[at].1.as_str());
        own.or_else(|| self.links.iter().find(|(link, _)| link == name).map(|(_, value)| value.as_str()))
    }

    /// Each variable as `NAME=value`, in order.
    pub fn lines(&self) -> Vec<String> {
        self.vars.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Replaces `$(NAME)` by the value of the variable.
    pub fn expand(&self, text: &str) -> String {
        expand(text, |name| self.get(name)).into_owned()
    }

    fn set(&mut self, name: &str, value: String) {
        if let Some(&at) = self.index.get(name) {
            self.vars[at].1 = value;
        } else {
            self.index.insert(name.to_owned(), self.vars.len());
            self.vars.push((name.to_owned(), value));
        }
    }

    fn add_all(&mut self, sources: &Sources<'_>, from: &EnvFromSource) -> Result<(), ConfigError> {
        let namespace = namespace(sources.pod);
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let mut skipped = Vec::new();
        let source;
        if let Some(reference) = &from.config_map_ref {
            let Some(map) = sources.references.config_map(namespace, &reference.name) else {
                return absent(reference.optional, || no_config_map(namespace, &reference.name));
            };
            source = format!("ConfigMap {namespace}/{}", reference.name);
            for (key, value) in map.data.iter().flatten() {
                self.add(prefix, key, value, &mut skipped);
            }
        } else if let Some(reference) = &from.secret_ref {
            let Some(secret) = sources.references.secret(namespace, &reference.name) else {
                return absent(reference.optional, || no_secret(namespace, &reference.name));
            };
            source = format!("Secret {namespace}/{}", reference.name);
            for (key, value) in secret.data.iter().flatten() {
                self.add(prefix, key, &String::from_utf8_lossy(&value.0), &mut skipped);
            }
        } else {
            return Ok(());
        }
        if !skipped.is_empty() {
            self.notes.push(Note {
                reason: "InvalidEnvironmentVariableNames",
                message: format!(
                    "keys [{}] of {source} were skipped: they are not valid environment variable names",
                    skipped.join(", ")
                ),
            });
        }
        Ok(())
    }

    fn add(&mut self, prefix: &str, key: &str, value: &str, skipped: &mut Vec<String>) {
        let name = format!("{prefix}{key}");
        if is_name(&name) {
            self.set(&name, value.to_owned());
        } else {
            skipped.push(key.to_owned());
        }
    }

    fn value_of(
        &self,
        sources: &Sources<'_>,
        container: &Container,
        var: &EnvVar,
    ) -> Result<Option<String>, ConfigError> {
        let Some(from) = &var.value_from else {
            return Ok(Some(self.expand(var.value.as_deref().unwrap_or_default())));
        };
        value_from(sources, container, from)
            .map_err(|e| ConfigError::container(format!("env {}: {e}", var.name)))
    }
}

fn value_from(
    sources: &Sources<'_>,
    container: &Container,
    from: &EnvVarSource,
) -> Result<Option<String>, ConfigError> {
    let namespace = namespace(sources.pod);
    if let Some(reference) = &from.config_map_key_ref {
        let Some(map) = sources.references.config_map(namespace, &reference.name) else {
            return absent(reference.optional, || no_config_map(namespace, &reference.name));
        };
        let data = map.data.iter().flatten();
        match data.clone().find(|(key, _)| **key == reference.key) {
            Some((_, value)) => Ok(Some(value.clone())),
            None => absent(reference.optional, || {
                no_key("ConfigMap", namespace, &reference.name, &reference.key, data.map(|(key, _)| key))
            }),
        }
    } else if let Some(reference) = &from.secret_key_ref {
        let Some(secret) = sources.references.secret(namespace, &reference.name) else {
            return absent(reference.optional, || no_secret(namespace, &reference.name));
        };
        let data = secret.data.iter().flatten();
        match data.clone().find(|(key, _)| **key == reference.key) {
            Some((_, value)) => Ok(Some(String::from_utf8_lossy(&value.0).into_owned())),
            None => absent(reference.optional, || {
                no_key("Secret", namespace, &reference.name, &reference.key, data.map(|(key, _)| key))
            }),
        }
    } else if let Some(reference) = &from.field_ref {
        fields::pod_field(sources.pod, sources.facts, sources.pod_ips, &reference.field_path).map(Some)
    } else if let Some(reference) = &from.resource_field_ref {
        fields::resource_field(sources.pod, &container.name, sources.facts, reference).map(Some)
    } else if from.file_key_ref.is_some() {
        Err(ConfigError::container("fileKeyRef is not supported: put the value into a ConfigMap or a Secret"))
    } else {
        Ok(Some(String::new()))
    }
}

/// Whether a variable contains the pod IP. The sandbox must then run before the container is created.
pub fn needs_pod_ip(container: &Container) -> bool {
    container.env.iter().flatten().any(|var| {
        let path = var.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
        path.is_some_and(|field| matches!(field.field_path.as_str(), "status.podIP" | "status.podIPs"))
    })
}

/// Whether the text is a valid variable name: printable ASCII without `=`, as the API allows.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=')
}

fn absent<T: Default>(optional: Option<bool>, error: impl FnOnce() -> ConfigError) -> Result<T, ConfigError> {
    if optional == Some(true) { Ok(T::default()) } else { Err(error()) }
}

fn no_config_map(namespace: &str, name: &str) -> ConfigError {
    ConfigError::container(format!(
        "configmap \"{name}\" not found in namespace {namespace}: add it beside the pod or mark the reference optional"
    ))
}

fn no_secret(namespace: &str, name: &str) -> ConfigError {
    ConfigError::container(format!(
        "secret \"{name}\" not found in namespace {namespace}: add it beside the pod or mark the reference optional"
    ))
}

fn no_key<K: AsRef<str>>(
    kind: &str,
    namespace: &str,
    name: &str,
    key: &str,
    keys: impl Iterator<Item = K>,
) -> ConfigError {
    let keys: Vec<_> = keys.map(|k| k.as_ref().to_owned()).collect();
    let there =
        if keys.is_empty() { "it has no keys".to_owned() } else { format!("it has {}", keys.join(", ")) };
    ConfigError::container(format!("couldn't find key {key} in {kind} {namespace}/{name}: {there}"))
}

#[cfg(test)]
mod tests;
