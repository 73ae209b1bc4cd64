//! Computes the files of volumes that the kubelet fills. It does not access the disk.

use std::collections::BTreeMap;

use api::references::TokenKey;
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret, ServiceAccountTokenProjection,
};

use super::VolumeInput;
use crate::spec::{metadata_field, namespace, only_user, resource_field};

/// Largest ConfigMap or Secret in bytes, as the API allows.
const MAX_OBJECT_BYTES: usize = 1024 * 1024;
/// Default file mode.
const DEFAULT_MODE: i32 = 0o644;
/// Mode of a token that belongs to one user or group, as in the stock kubelet.
const TOKEN_MODE: i32 = 0o600;
/// Maximum length of a file name in Linux.
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 4096;

/// One file of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    pub(super) user: Option<u32>,
    /// Whether the pod names the path, so that it is not derived from a key.
    named: bool,
}

/// Files of a volume by relative path, without `.` and `..`.
pub type Files = BTreeMap<String, File>;

impl File {
    #[cfg(test)]
    pub fn new(data: &[u8], mode: u32) -> Self {
        Self { data: data.to_vec(), mode, ..Self::default() }
    }
}

/// The files of one volume. Sources are added one by one.
pub(super) struct Content<'a> {
    input: &'a VolumeInput<'a>,
    default_mode: Option<i32>,
    default_user: Option<i64>,
    files: Files,
}

impl<'a> Content<'a> {
    /// Creates content without files.
    pub fn new(input: &'a VolumeInput<'a>, default_mode: Option<i32>, default_user: Option<i64>) -> Self {
        Self { input, default_mode, default_user, files: Files::new() }
    }

    /// Adds keys of a ConfigMap. Without `items`, adds all keys.
    pub fn config_map(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let map = self.input.references.config_map(namespace(self.input.pod), name);
        self.object(("configmap", "config"), name, map.map(|map| bytes_of_map(map)), items, optional)
    }

    /// Adds keys of a Secret. Without `items`, adds all keys.
    pub fn secret(
        &mut self,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let secret = self.input.references.secret(namespace(self.input.pod), name);
        self.object(("secret", "secret"), name, secret.map(|secret| bytes_of_secret(secret)), items, optional)
    }

    /// Adds files of a ConfigMap or Secret. `data` is `None` if the object does not exist.
    fn object(
        &mut self,
        (kind, key_kind): (&str, &str),
        name: &str,
        data: Option<BTreeMap<&str, &[u8]>>,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let Some(data) = data else {
            return absent(kind, namespace(self.input.pod), name, optional);
        };
        let bytes: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > MAX_OBJECT_BYTES {
            return Err(format!(
                "{kind} {name:?} has {bytes} bytes, but at most {MAX_OBJECT_BYTES} are allowed: split it or use a \
                 hostPath"
            ));
        }
        let items = items.unwrap_or_default();
        if items.is_empty() {
            return data.iter().try_for_each(|(key, value)| self.put(key, value, None, None, false));
        }
        for item in items {
            match data.get(item.key.as_str()) {
                Some(value) => self.put(&item.path, value, item.mode, item.user, true)?,
                None if optional == Some(true) => {}
                None => {
                    let keys: Vec<_> = data.keys().copied().collect();
                    let there = if keys.is_empty() { "no keys".to_owned() } else { keys.join(", ") };
                    return Err(format!(
                        "{kind} {name:?} references non-existent {key_kind} key: {}: it has {there}",
                        item.key
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds fields of the pod.
    pub fn downward_api(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<(), String> {
        let VolumeInput { pod, facts, .. } = *self.input;
        for item in items.unwrap_or_default() {
            let value = if let Some(field) = &item.field_ref {
                metadata_field(pod, &field.field_path)
            } else if let Some(field) = &item.resource_field_ref {
                resource_field(pod, "", facts, field)
            } else {
                continue;
            };
            let value = value.map_err(|e| format!("{}: {e}", item.path))?;
            self.put(&item.path, value.as_bytes(), item.mode, item.user, true)?;
        }
        Ok(())
    }

    /// Adds a token. If all containers have the same user, that user can read it. Otherwise the pod's group can, if
    /// there is one.
    pub fn token(&mut self, projection: &ServiceAccountTokenProjection) -> Result<(), String> {
        let VolumeInput { uid, pod, references, .. } = *self.input;
        let held = references.tokens.get(&TokenKey::new(uid.as_str(), projection));
        let Some(given) = held.and_then(|token| token.status.as_ref()?.token.as_ref()) else {
            let spec = pod.spec.as_ref();
            let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
            return Err(format!(
                "there is no token of the service account {}/{account} yet: waiting for the API server",
                namespace(pod)
            ));
        };
        let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let user = projection.user.or(self.default_user).or_else(|| only_user(pod));
        let is_closed = user.is_some() || context.is_some_and(|context| context.fs_group.is_some());
        self.put(&projection.path, given.as_bytes(), is_closed.then_some(TOKEN_MODE), user, true)
    }

    fn put(
        &mut self,
        path: &str,
        data: &[u8],
        mode: Option<i32>,
        user: Option<i64>,
        named: bool,
    ) -> Result<(), String> {
        let path = relative(path)?;
        if named && self.files.get(&path).is_some_and(|other| other.named) {
            return Err(format!("two sources write the path {path}: give one of them another path"));
        }
        let mode = mode.or(self.default_mode).unwrap_or(DEFAULT_MODE);
        let mode = u32::try_from(mode).ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or_else(|| format!("{path}: a mode is between 0 and 0777"))?;
        let user = user.or(self.default_user).map(u32::try_from).transpose();
        let user = user.map_err(|_| format!("{path}: the user is not a user id"))?;
        self.files.insert(path, File { data: data.to_vec(), mode, user, named });
        Ok(())
    }

    /// Returns the files.
    ///
    /// # Errors
    /// If a path is both a file and a directory.
    pub fn finish(self) -> Result<Files, String> {
        for path in self.files.keys() {
            for (at, _) in path.match_indices('/') {
                if self.files.contains_key(&path[..at]) {
                    return Err(format!(
                        "{} would be both a file and the directory of {path}: give one of them another path",
                        &path[..at]
                    ));
                }
            }
        }
        Ok(self.files)
    }
}

fn absent(kind: &str, namespace: &str, name: &str, optional: Option<bool>) -> Result<(), String> {
    if optional == Some(true) {
        return Ok(());
    }
    Err(format!(
        "{kind} {name:?} not found in namespace {namespace}: add it beside the pod or mark the reference optional"
    ))
}

fn bytes_of_map(map: &ConfigMap) -> BTreeMap<&str, &[u8]> {
    let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
    let binary = map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
    text.chain(binary).collect()
}

fn bytes_of_secret(secret: &Secret) -> BTreeMap<&str, &[u8]> {
    secret.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice())).collect()
}

/// Normalizes a path below the volume. Names that start with two dots are reserved for the atomic writer.
fn relative(path: &str) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("the path {path:?} {what}"));
    if path.starts_with('/') {
        return wrong("must be relative");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    match parts.first() {
        None => return wrong("is empty"),
        Some(first) if first.starts_with("..") => return wrong("must not start with \"..\""),
        Some(_) => {}
    }
    if parts.contains(&"..") {
        return wrong("must not contain \"..\"");
    }
    if path.len() > MAX_PATH || parts.iter().any(|part| part.len() > MAX_NAME) {
        return wrong("is too long");
    }
    if path.contains('\0') {
        return wrong("must not contain a zero byte");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests;
