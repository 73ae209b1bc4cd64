//! Hashes of a pod's parts, tied together so that a change takes along exactly what hangs on it.

use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};
use sha2::{Digest, Sha256};

use crate::plan::{self, Hashes};
use crate::spec::hash;

#[cfg(test)]
mod tests;

/// Digits of a hash; plenty for telling two versions of one pod apart.
const DIGITS: usize = 16;

/// The sandbox hangs on the init containers too: as in Kubernetes, a change of one restarts the pod. Each container
/// hangs on the sandbox: in a new one all are made anew. Of an ephemeral one, which nobody can change, all counts as it is written.
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
