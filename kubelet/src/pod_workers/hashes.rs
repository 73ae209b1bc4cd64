//! Combines the hashes of a pod's parts, so that a change also restarts all parts that depend on it.

use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};
use sha2::{Digest, Sha256};

use crate::plan::{self, Hashes};
use crate::spec::hash;

/// Number of hex digits of a hash. They suffice to distinguish versions of one pod.
const DIGITS: usize = 16;

/// The hashes of a pod. The sandbox hash includes init containers, because a change of these restarts the pod, as
/// in Kubernetes. Container hashes include the sandbox hash. An ephemeral container is immutable, so its whole
/// definition is hashed.
pub(super) fn of(pod: &Pod) -> Hashes {
    let of_container = |name: &str| hash::container(pod, name);
    let inits = plan::inits(pod);
    let init_hashes = inits.iter().filter(|c| !plan::is_sidecar(c)).map(|c| of_container(&c.name));
    let sandbox = join(std::iter::once(hash::sandbox(pod)).chain(init_hashes));
    let all = plan::spec(pod).containers.iter().chain(inits);
    let containers =
        all.map(|c| (c.name.clone(), join([of_container(&c.name), sandbox.clone()].into_iter()))).collect();
    let of_ephemeral = |c: &EphemeralContainer| {
        join(serde_json::to_string(c).into_iter().chain(std::iter::once(sandbox.clone())))
    };
    let ephemerals = plan::ephemerals(pod).iter().map(|c| (c.name.clone(), of_ephemeral(c))).collect();
    let spec = join(serde_json::to_string(&pod.spec).into_iter());
    let restart_policy = plan::spec(pod).restart_policy.clone().unwrap_or_default();
    Hashes { sandbox, containers, ephemerals, spec, restart_policy }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.as_bytes());
        digest.update(b"\n");
    }
    hex::encode(&digest.finalize()[..DIGITS / 2])
}

#[cfg(test)]
mod tests {
    //! Tests of effects of edits on combined hashes.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{Action, Key};

    fn pod(hostname: &str, ephemerals: Value) -> Pod {
        let spec = json!({
            "hostname": hostname, "containers": [{"name": "web", "image": "a"}], "ephemeralContainers": ephemerals,
        });
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn ephemeral_container_does_not_change_other_hashes() {
        let plain = of(&pod("h", json!([])));
        let debugged =
            |hostname: &str, image: &str| of(&pod(hostname, json!([{"name": "debug", "image": image}])));
        let key = Action::CreateContainer {
            name: "debug".to_owned(),
            attempt: 0,
            back_off: std::time::Duration::ZERO,
        }
        .key();
        let of_debugger = |hashes: &Hashes| hashes.of(&key).cloned();
        let known = debugged("h", "a");
        assert_eq!((known.all(), &known.containers), (plain.all(), &plain.containers));
        assert!(of_debugger(&known).is_some() && of_debugger(&plain).is_none());
        assert_ne!(of_debugger(&known), of_debugger(&debugged("h", "b")));
        assert_ne!(of_debugger(&known), of_debugger(&debugged("other", "a")), "its sandbox goes");
        assert_eq!(known.of(&Key::Container("web".to_owned())), plain.of(&Key::Container("web".to_owned())));
    }
}
