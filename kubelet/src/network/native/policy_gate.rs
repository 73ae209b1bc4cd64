//! Keeps a new pod off the bridge until the packet rules of NetworkPolicies cover it, and lists the sandboxes.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::network_policy::{Labels, NamedPort};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::state::Key;
use super::{Native, links};
use crate::observed::PodUid;

/// How long a pod waits for its rules. Then its start fails with an event, and is retried.
const PATIENCE: Duration = Duration::from_secs(15);

/// A sandbox with addresses of this node. It need not be connected to the bridge yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySandbox {
    /// Identifies the sandbox.
    pub id: SandboxId,
    /// The UID of the pod.
    pub uid: PodUid,
    /// The pod as `namespace/name`, or its UID if the name is not known.
    pub pod: String,
    /// The stored fields of the pod. `None` before the first rules for it.
    pub fields: Option<Arc<PolicyFields>>,
    /// The addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// The name of its bridge port.
    pub port: String,
    /// The hardware address of the pod's end.
    pub mac: [u8; 6],
}

/// The fields of a pod on which NetworkPolicies depend. They are stored with the sandbox, so that a kubelet that starts
/// knows them even if the source of the pod does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyFields {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Labels,
    /// The named ports of its containers.
    pub ports: Vec<NamedPort>,
}

/// Identifies a reservation of a sandbox. A reservation of the same sandbox after a failed start has another ID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SandboxId {
    key: Key,
    serial: u64,
}

impl SandboxId {
    pub(super) fn new(key: &Key, serial: u64) -> Self {
        Self { key: key.clone(), serial }
    }

    /// The first reservation of a pod's first sandbox.
    #[cfg(test)]
    pub fn of_uid(uid: &PodUid) -> Self {
        Self { key: Key { uid: uid.clone(), attempt: 0 }, serial: 1 }
    }
}

/// The sandboxes that the rules in the kernel cover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Covered {
    /// All of them: this kubelet enforces no policies, or cannot know them.
    #[default]
    All,
    /// These ones. Others must wait.
    Only(Arc<BTreeSet<SandboxId>>),
}

/// The gate between the pod network and the enforcement of policies.
#[derive(Debug, Default)]
pub(super) struct PolicyGate {
    /// Counts changes of the sandboxes.
    sandboxes: watch::Sender<u64>,
    covered: watch::Sender<Covered>,
}

impl PolicyGate {
    /// Notifies the enforcement that a sandbox was added or removed.
    pub fn note_change(&self) {
        self.sandboxes.send_modify(|count| *count += 1);
    }

    /// Waits until the rules cover a sandbox.
    ///
    /// # Errors
    /// If they do not cover it in time.
    pub async fn wait(&self, id: &SandboxId) -> Result<(), String> {
        let mut covered = self.covered.subscribe();
        let is_covered = covered.wait_for(|covered| match covered {
            Covered::All => true,
            Covered::Only(ids) => ids.contains(id),
        });
        match tokio::time::timeout(PATIENCE, is_covered).await {
            Ok(_) => Ok(()),
            Err(_) => {
                Err("the packet rules of NetworkPolicies are not set yet; see events of the node".to_owned())
            }
        }
    }
}

impl Native {
    /// The sandboxes of this node. An ended one may still be listed.
    pub fn policy_sandboxes(&self) -> Vec<PolicySandbox> {
        let state = self.state();
        let all = state.all().filter_map(|(key, record, serial)| {
            Some(PolicySandbox {
                id: SandboxId::new(key, serial),
                uid: key.uid.clone(),
                pod: record.pod().to_owned(),
                fields: record.policy_fields.clone(),
                addresses: record.addresses.clone(),
                port: self.bridge.veth(key),
                mac: links::mac(*record.addresses.first()?),
            })
        });
        all.collect()
    }

    /// Changes when a sandbox is added or removed.
    pub fn sandbox_changes(&self) -> watch::Receiver<u64> {
        self.policy_gate.sandboxes.subscribe()
    }

    /// Stores fields of pods with their sandboxes. Sandboxes that no longer exist are ignored.
    ///
    /// # Errors
    /// If a record cannot be written.
    pub async fn store_policy_fields(
        self: &Arc<Self>,
        all: Vec<(SandboxId, Arc<PolicyFields>)>,
    ) -> io::Result<()> {
        self.change(move |native| {
            for (SandboxId { key, serial }, fields) in all {
                let changed = native.state().set_policy_fields(&key, serial, fields);
                if let Some(record) = changed {
                    native.records.replace(&key, &record)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Lets these sandboxes connect to the bridge.
    pub fn set_policy_coverage(&self, covered: Covered) {
        self.policy_gate.covered.send_if_modified(|known| {
            let is_new = *known != covered;
            *known = covered;
            is_new
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Arc, Covered, Key, PATIENCE, PodUid, PolicyGate, SandboxId};

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_waits_until_the_rules_cover_it() {
        let gate = PolicyGate::default();
        let key = Key { uid: PodUid::new("one"), attempt: 0 };
        let (earlier, id) = (SandboxId::new(&key, 1), SandboxId::new(&key, 2));
        gate.wait(&id).await.unwrap();
        gate.covered.send_replace(Covered::Only(Arc::default()));
        let start = tokio::time::Instant::now();
        gate.wait(&id).await.unwrap_err();
        assert_eq!(start.elapsed(), PATIENCE);
        gate.covered.send_replace(Covered::Only(Arc::new([earlier].into())));
        gate.wait(&id).await.unwrap_err();
        gate.covered.send_replace(Covered::Only(Arc::new([id.clone()].into())));
        gate.wait(&id).await.unwrap();
    }
}
