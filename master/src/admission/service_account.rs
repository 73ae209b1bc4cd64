//! The ServiceAccount plugin: sets a pod's service account, image pull secrets and token volume.

use std::collections::BTreeSet;
use std::time::Duration;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest};
use apiserver::auth::nodes::references::is_mirror;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::lister::Lister;
use super::pods::{
    CONTAINERS, field, fills_in, forbidden, is_new_pod, known_containers, list, list_mut, spec, text,
};
use crate::objects::List;

/// The resource name of ServiceAccounts.
const ACCOUNTS: &str = "serviceaccounts";
/// The account of pods that name none.
const DEFAULT: &str = "default";
/// How long a pod waits for the default account of a new namespace.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// The mount path of the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Prefix of the volume name. Five characters follow.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// Token lifetime in seconds. The stock value marks tokens that admission requested.
const TOKEN_SECONDS: u32 = 3607;
/// The alphabet of generated names, as in the stock server.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The fields of a ServiceAccount that the plugin copies into pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Account {
    /// References to Secrets, copied unchanged.
    image_pull_secrets: List<Value>,
    automount_service_account_token: Option<bool>,
}

/// The stock plugin `ServiceAccount`.
#[derive(Clone, Debug)]
pub struct ServiceAccount {
    lister: Lister,
}

impl ServiceAccount {
    /// Creates the plugin, which reads ServiceAccounts from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

/// The account that a pod names, or `default`.
fn account_of(pod: &Json) -> &str {
    let named = |field: &str| spec(pod).map(|spec| text(spec, field)).unwrap_or_default();
    [named("serviceAccountName"), named("serviceAccount"), DEFAULT]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or(DEFAULT)
}

/// Applies an account to a pod. `suffix` completes the name of the volume.
fn apply(pod: &mut Json, account: &Account, suffix: &str) {
    let name = account_of(pod).to_owned();
    let Some(spec) = field(pod, "spec") else { return };
    spec.insert("serviceAccountName".to_owned(), name.clone().into());
    spec.insert("serviceAccount".to_owned(), name.into());
    if list(spec, "imagePullSecrets").next().is_none() && !account.image_pull_secrets.is_empty() {
        spec.insert("imagePullSecrets".to_owned(), account.image_pull_secrets.to_vec().into());
    }
    let automount = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    if automount.or(account.automount_service_account_token).unwrap_or(true) {
        mount(spec, suffix);
    }
}

/// The name of the pod's token volume, if it has one.
fn token_of(spec: &Json) -> Option<String> {
    let mut names = list(spec, "volumes").filter_map(|volume| volume.get("name").and_then(Value::as_str));
    names.find(|name| name.starts_with(VOLUME_PREFIX)).map(str::to_owned)
}

/// Mounts the token into all containers without a mount at its path, and adds the volume.
fn mount(spec: &mut Json, suffix: &str) {
    let known = token_of(spec);
    let volume = known.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let is_mounted = mount_at(spec, &volume, &BTreeSet::new());
    if is_mounted
        && known.is_none()
        && let Some(volumes) = list_mut(spec, "volumes")
    {
        volumes.push(token_volume(&volume));
    }
}

/// Mounts a volume into all containers without a mount at the token path, except for those in `known`. Returns
/// whether it mounted any.
fn mount_at(spec: &mut Json, volume: &str, known: &BTreeSet<String>) -> bool {
    let mut is_mounted = false;
    for containers in CONTAINERS {
        let all = spec.get_mut(containers).and_then(Value::as_array_mut).into_iter().flatten();
        for container in all.filter_map(Value::as_object_mut) {
            if known.contains(text(container, "name")) {
                continue;
            }
            let Some(mounts) = list_mut(container, "volumeMounts") else { continue };
            if mounts.iter().all(|mount| mount.get("mountPath") != Some(&Value::from(MOUNT_PATH))) {
                mounts.push(json!({"name": volume, "mountPath": MOUNT_PATH, "readOnly": true}));
                is_mounted = true;
            }
        }
    }
    is_mounted
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
        },
    })
}

#[async_trait]
impl Admission for ServiceAccount {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if fills_in(attempt) {
            // A completed pod keeps its token volume; a pod without one gets none.
            let known = known_containers(attempt);
            let token = attempt.old.and_then(spec).and_then(token_of);
            if let (Some(volume), Some(spec)) = (token, field(&mut attempt.object, "spec")) {
                mount_at(spec, &volume, &known);
            }
            return Ok(());
        }
        // A mirror pod represents a static pod, which has no token.
        if !is_new_pod(attempt) || is_mirror(&attempt.object) {
            return Ok(());
        }
        let (name, namespace) = (account_of(&attempt.object), attempt.namespace.unwrap_or_default());
        let look = || self.lister.get::<Account>(ACCOUNTS, namespace, name);
        let found = match look() {
            None if name == DEFAULT => self.lister.wait_for(ACCOUNTS, namespace, ACCOUNT_TIMEOUT, look).await,
            found => found,
        };
        let Some(account) = found else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            );
            return Err(forbidden(attempt, &why));
        };
        let letter = |byte: &u8| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]);
        let suffix: String = Uuid::new_v4().as_bytes().iter().take(5).map(letter).collect();
        apply(&mut attempt.object, &account, &suffix);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of fields that the ServiceAccount sets on a pod.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn check(spec: Value, account: Value, look: impl Fn(&Value)) {
        let mut pod = json!({"spec": spec}).as_object().unwrap().clone();
        let account = serde_json::from_value(account).unwrap();
        apply(&mut pod, &account, "x2x2x");
        look(&pod["spec"]);
        let once = pod.clone();
        apply(&mut pod, &account, "other");
        assert_eq!(pod, once, "a second time changes nothing");
    }

    #[test]
    fn added_containers_get_the_token_mount() {
        let own = json!([{"name": "v", "mountPath": MOUNT_PATH}]);
        let spec = json!({"containers": [{"name": "old"}, {"name": "new"}, {"name": "own", "volumeMounts": own}],
            "initContainers": [{"name": "first"}], "volumes": [{"name": "data"}, {"name": "kube-api-access-x2x2x"}]});
        let mut pod = spec.as_object().unwrap().clone();
        let volume = token_of(&pod).unwrap();
        assert!(mount_at(&mut pod, &volume, &BTreeSet::from(["old".to_owned()])));
        let token = json!([{"name": "kube-api-access-x2x2x", "mountPath": MOUNT_PATH, "readOnly": true}]);
        let mounts = |part: &str, at: usize| pod[part][at]["volumeMounts"].clone();
        assert_eq!(
            [mounts("containers", 0), mounts("containers", 1), mounts("containers", 2)],
            [Value::Null, token.clone(), own]
        );
        assert_eq!(mounts("initContainers", 0), token);
        assert_eq!(token_of(json!({"volumes": [{"name": "data"}]}).as_object().unwrap()), None);
    }

    #[test]
    fn pod_gets_service_account_pull_secrets_and_token() {
        let plain = json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "v", "mountPath": MOUNT_PATH}]}],
            "initContainers": [{"name": "i"}]});
        check(plain.clone(), json!({"imagePullSecrets": [{"name": "s"}]}), |spec| {
            assert_eq!(
                (&spec["serviceAccountName"], &spec["serviceAccount"]),
                (&json!("default"), &json!("default"))
            );
            assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
            assert_eq!(spec["volumes"][0]["name"], "kube-api-access-x2x2x");
            assert_eq!(spec["volumes"][0]["projected"]["sources"].as_array().unwrap().len(), 3);
            let mounts =
                |part: &str, at: usize| spec[part][at]["volumeMounts"].as_array().map_or(0, Vec::len);
            assert_eq!(
                (mounts("containers", 0), mounts("containers", 1), mounts("initContainers", 0)),
                (1, 1, 1)
            );
        });
        for (own, accounts, is_mounted) in [
            (json!(false), json!(true), false),
            (json!(true), json!(false), true),
            (Value::Null, json!(false), false),
            (Value::Null, Value::Null, true),
        ] {
            let spec = json!({"containers": [{"name": "a"}], "serviceAccountName": "robot", "automountServiceAccountToken": own});
            check(spec, json!({"automountServiceAccountToken": accounts}), |spec| {
                assert_eq!(spec["serviceAccountName"], "robot");
                assert_eq!(spec.get("volumes").is_some(), is_mounted, "{own} {accounts}");
            });
        }
    }
}
