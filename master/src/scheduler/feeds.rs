//! What the scheduler follows: each resource with what is read of it, and where that goes.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::labels::Labels;
use super::mind::Mind;
use super::node::{self, Node};
use super::owners::{self, Selecting};
use super::pod::{self, Pod};
use super::preempt::{self, Budget};
use super::read::{at, labels, text_at};
use super::state::{Part, State};
use super::volumes::{self, Claim, Class, Volume};
use crate::controllers::{Client, Complaint, Json, Kind, Sieve, Table, follow};

const BUDGET: Kind = Kind::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", true);
const CLAIM: Kind = Kind::of("", "PersistentVolumeClaim", "persistentvolumeclaims", true);
const VOLUME: Kind = Kind::of("", "PersistentVolume", "persistentvolumes", false);
const CLASS: Kind = Kind::of("storage.k8s.io", "StorageClass", "storageclasses", false);
const CONTROLLER: Kind = Kind::of("", "ReplicationController", "replicationcontrollers", true);
const REPLICA_SET: Kind = Kind::of("apps", "ReplicaSet", "replicasets", true);
const STATEFUL_SET: Kind = Kind::of("apps", "StatefulSet", "statefulsets", true);

/// What selects pods, and which part of the state that is.
const SELECTING: &[(Kind, Part)] = &[
    (Kind::SERVICE, Part::Services),
    (CONTROLLER, Part::Controllers),
    (REPLICA_SET, Part::ReplicaSets),
    (STATEFUL_SET, Part::StatefulSets),
];

/// A table of the state.
struct Feed<T> {
    mind: Arc<Mind>,
    part: Part,
    fields: &'static [&'static str],
    keep: fn(&Json) -> T,
    take: Take<T>,
}

/// What is done with what was read.
struct Take<T> {
    replace: fn(&mut State, Part, Vec<T>, Instant),
    put: fn(&mut State, Part, T, Instant),
    remove: fn(&mut State, Part, T, Instant),
}

impl<T: Send + 'static> Table for Feed<T> {
    type Kept = T;

    fn sieve(&self) -> Sieve {
        self.fields.iter().copied().fold(Sieve::nothing(), Sieve::with)
    }

    fn keep(&self, object: &Json) -> T {
        (self.keep)(object)
    }

    fn replace(&self, all: Vec<T>) {
        self.mind.tell(|state, now| {
            (self.take.replace)(state, self.part, all, now);
            state.is_read(self.part);
        });
    }

    fn put(&self, one: T) {
        self.mind.tell(|state, now| (self.take.put)(state, self.part, one, now));
    }

    fn remove(&self, one: T) {
        self.mind.tell(|state, now| (self.take.remove)(state, self.part, one, now));
    }
}

/// Follows everything for as long as the tasks are there.
pub fn follow_all(client: &Client, mind: &Arc<Mind>) -> JoinSet<()> {
    let (mut tasks, complaint) = (JoinSet::new(), Complaint::default());
    let mut begin = Begin { client, mind, tasks: &mut tasks, complaint };
    begin.feed(
        Kind::NAMESPACE,
        Part::Namespaces,
        NAMESPACE_FIELDS,
        namespace,
        Take {
            replace: |state, _, all, now| state.replace_namespaces(all, now),
            put: |state, _, (name, labels), now| state.put_namespace(&name, Some(labels), now),
            remove: |state, _, (name, _), now| state.put_namespace(&name, None, now),
        },
    );
    begin.feed(
        Kind::NODE,
        Part::Nodes,
        node::FIELDS,
        Node::of,
        Take {
            replace: |state, _, all, now| state.replace_nodes(all, now),
            put: |state, _, node, now| state.put_node(node, now),
            remove: |state, _, node, now| state.remove_node(&node.name, now),
        },
    );
    begin.feed(
        Kind::POD,
        Part::Pods,
        pod::FIELDS,
        Pod::of,
        Take {
            replace: |state, _, all, now| state.replace_pods(all, now),
            put: |state, _, pod, now| state.put_pod(pod, now),
            remove: |state, _, pod, now| state.remove_pod(&pod.uid, now),
        },
    );
    begin.feed(
        BUDGET,
        Part::Budgets,
        preempt::FIELDS,
        Budget::of,
        Take {
            replace: |state, _, all, _| state.budgets().replace(all),
            put: |state, _, budget, _| state.budgets().put(budget),
            remove: |state, _, budget, _| state.budgets().remove(&budget),
        },
    );
    begin.feed(
        CLAIM,
        Part::Claims,
        volumes::CLAIM_FIELDS,
        Claim::of,
        Take {
            replace: |state, _, all, now| state.volumes(now).replace_claims(all),
            put: |state, _, claim, now| state.volumes(now).put_claim(claim),
            remove: |state, _, claim, now| state.volumes(now).remove_claim(&claim),
        },
    );
    begin.feed(
        VOLUME,
        Part::Volumes,
        volumes::VOLUME_FIELDS,
        Volume::of,
        Take {
            replace: |state, _, all, now| state.volumes(now).replace_volumes(all),
            put: |state, _, volume, now| state.volumes(now).put_volume(volume),
            remove: |state, _, volume, now| state.volumes(now).remove_volume(&volume),
        },
    );
    begin.feed(
        CLASS,
        Part::Classes,
        volumes::CLASS_FIELDS,
        Class::of,
        Take {
            replace: |state, _, all, now| state.volumes(now).replace_classes(all),
            put: |state, _, class, now| state.volumes(now).put_class(class),
            remove: |state, _, class, now| state.volumes(now).remove_class(&class),
        },
    );
    for (kind, part) in SELECTING {
        begin.feed(
            kind.clone(),
            *part,
            owners::FIELDS,
            Selecting::of,
            Take {
                replace: |state, part, all, _| state.owners().replace(part, all),
                put: |state, part, one, _| state.owners().put(part, one),
                remove: |state, part, one, _| state.owners().remove(part, &one),
            },
        );
    }
    tasks
}

struct Begin<'a> {
    client: &'a Client,
    mind: &'a Arc<Mind>,
    tasks: &'a mut JoinSet<()>,
    complaint: Complaint,
}

impl Begin<'_> {
    fn feed<T: Send + 'static>(
        &mut self,
        kind: Kind,
        part: Part,
        fields: &'static [&'static str],
        keep: fn(&Json) -> T,
        take: Take<T>,
    ) {
        let feed = Feed { mind: self.mind.clone(), part, fields, keep, take };
        self.tasks.spawn(follow(self.client.clone(), Arc::new(kind), feed, self.complaint.clone()));
    }
}

const NAMESPACE_FIELDS: &[&str] = &["metadata.name", "metadata.labels", "metadata.resourceVersion"];

fn namespace(object: &Json) -> (String, Labels) {
    (text_at(object, "metadata.name"), labels(at(object, "metadata.labels")))
}
