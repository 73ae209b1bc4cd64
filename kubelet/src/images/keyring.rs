//! Registry credentials from pull secrets and docker configuration files, matched by image.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use super::name::ImageName;
use crate::runtime::Credentials;

/// Host names that configuration files use for Docker Hub.
const DEFAULT_REGISTRY_HOSTS: [&str; 3] = ["index.docker.io", "docker.io", "registry-1.docker.io"];

/// Credentials, with the registries to which they apply.
#[derive(Clone, Default)]
pub struct Keyring {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    place: RegistryScope,
    credentials: Credentials,
}

/// The registry that credentials apply to: a host pattern with `*`, an optional port and an optional path prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RegistryScope {
    host: String,
    port: Option<String>,
    path: String,
}

/// Credentials that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{of}: {problem}")]
pub struct UnreadableKey {
    /// Name of the file or Secret.
    pub of: String,
    /// The reason why the credentials cannot be read.
    pub problem: String,
}

/// Content of a docker `config.json`, and of a Secret of type `kubernetes.io/dockerconfigjson`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Config {
    pub(super) auths: BTreeMap<String, Entry>,
    #[serde(rename = "credHelpers")]
    pub(super) helpers: BTreeMap<String, String>,
    #[serde(rename = "credsStore")]
    pub(super) store: String,
}

/// The entry of one registry.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

impl Keyring {
    /// Builds a keyring from a pod's pull secrets. Secrets that cannot be read are skipped and returned.
    pub fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> (Self, Vec<UnreadableKey>) {
        let mut keyring = Self::default();
        let mut problems = Vec::new();
        for secret in secrets {
            let of = format!("Secret {}", secret.metadata.name.as_deref().unwrap_or_default());
            if let Err(problem) = keyring.add_secret(secret) {
                problems.push(UnreadableKey { of, problem });
            }
        }
        (keyring, problems)
    }

    fn add_secret(&mut self, secret: &Secret) -> Result<(), String> {
        let data =
            |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice());
        let missing = |key: &str| format!("it has no key {key}");
        match secret.type_.as_deref().unwrap_or_default() {
            "kubernetes.io/dockerconfigjson" => {
                let config =
                    read_config(data(".dockerconfigjson").ok_or_else(|| missing(".dockerconfigjson"))?)?;
                self.add(config.auths)
            }
            "kubernetes.io/dockercfg" => {
                let content = data(".dockercfg").ok_or_else(|| missing(".dockercfg"))?;
                self.add(serde_json::from_slice(content).map_err(|error| error.to_string())?)
            }
            other => Err(format!(
                "its type is \"{other}\"; a pull secret is of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"
            )),
        }
    }

    /// Adds all entries that can be read, and returns the first error.
    pub(super) fn add(&mut self, entries: BTreeMap<String, Entry>) -> Result<(), String> {
        let mut outcome = Ok(());
        for (server, entry) in entries {
            match entry.credentials(&server) {
                Ok(Some(credentials)) => {
                    self.keys.push(Key { place: RegistryScope::of(&server), credentials })
                }
                Ok(None) => {}
                Err(problem) => outcome = outcome.and(Err(problem)),
            }
        }
        outcome
    }

    /// Returns the credentials that match an image, most specific first.
    pub fn find(&self, image: &ImageName) -> Vec<Credentials> {
        let mut fitting: Vec<&Key> = self.keys.iter().filter(|key| key.place.covers(image)).collect();
        fitting.sort_by_key(|key| std::cmp::Reverse(key.place.specificity()));
        fitting.into_iter().map(|key| key.credentials.clone()).collect()
    }
}

pub(super) fn read_config(content: &[u8]) -> Result<Config, String> {
    serde_json::from_slice(content).map_err(|error| error.to_string())
}

impl Entry {
    /// The credentials of an entry. `None` for an entry without credentials, as credential stores write it.
    fn credentials(self, server: &str) -> Result<Option<Credentials>, String> {
        let mut credentials = Credentials {
            username: self.username,
            password: self.password,
            identity_token: self.identitytoken,
            server: server.to_owned(),
        };
        if !self.auth.is_empty() {
            let wrong = || format!("\"auth\" of {server} is not the base64 of USER:PASSWORD");
            let decoded = STANDARD.decode(self.auth.trim()).map_err(|_| wrong())?;
            let decoded = String::from_utf8(decoded).map_err(|_| wrong())?;
            let (user, password) = decoded.split_once(':').ok_or_else(wrong)?;
            credentials.username = user.to_owned();
            credentials.password = password.trim_end_matches('\0').to_owned();
        }
        let empty = credentials.username.is_empty() && credentials.identity_token.is_empty();
        Ok((!empty).then_some(credentials))
    }
}

impl RegistryScope {
    /// Parses `host`, `*.host`, `host:port` and `host/path`, with or without a scheme. A trailing API version (`/v1/`), as old
    /// clients wrote it, is ignored.
    fn of(server: &str) -> Self {
        let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let path = ["v1", "v2"].iter().find_map(|version| path.strip_prefix(version)).unwrap_or(path);
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                (host, Some(port.to_owned()))
            }
            _ => (address, None),
        };
        let host = if DEFAULT_REGISTRY_HOSTS.contains(&host) { DEFAULT_REGISTRY_HOSTS[1] } else { host };
        Self { host: host.to_owned(), port, path: path.trim_start_matches('/').to_owned() }
    }

    fn covers(&self, image: &ImageName) -> bool {
        let here = Self::of(&image.registry);
        let path_holds = image
            .repository
            .strip_prefix(&self.path)
            .is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'));
        let (pattern, host) = (self.host.split('.'), here.host.split('.'));
        path_holds
            && self.port == here.port
            && pattern.clone().count() == host.clone().count()
            && pattern.zip(host).all(|(pattern, part)| matches(pattern.as_bytes(), part.as_bytes()))
    }

    /// The sort key: longer paths first, then hosts without `*`.
    fn specificity(&self) -> (usize, bool, usize) {
        (self.path.len(), !self.host.contains('*'), self.host.len())
    }
}

/// Whether a host label matches a pattern, in which `*` matches any characters.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        Some((letter, rest)) => text
            .split_first()
            .is_some_and(|(first, text)| first.eq_ignore_ascii_case(letter) && matches(rest, text)),
    }
}

#[cfg(test)]
mod tests;
