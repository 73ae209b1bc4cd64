//! What the scheduler follows: each resource with what is read of it, and where that goes.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::keyed::{self, Keyed};
use super::known::Known;
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
    keep: Keep<T>,
    take: Take<T>,
}

/// What is kept of an object.
type Keep<T> = Box<dyn Fn(&Json) -> T + Send + Sync>;

/// What is done with what was read.
struct Take<T> {
    replace: Act<Vec<T>>,
    put: Act<T>,
    remove: Act<T>,
}

type Act<T> = Box<dyn Fn(&mut State, T, Instant) + Send + Sync>;

impl<T: 'static> Take<T> {
    fn of(
        replace: impl Fn(&mut State, Vec<T>, Instant) + Send + Sync + 'static,
        put: impl Fn(&mut State, T, Instant) + Send + Sync + 'static,
        remove: impl Fn(&mut State, T, Instant) + Send + Sync + 'static,
    ) -> Self {
        Self { replace: Box::new(replace), put: Box::new(put), remove: Box::new(remove) }
    }
}

impl<T: Keyed + 'static> Take<T> {
    /// Keeps them in that table.
    fn into(table: fn(&mut State, Instant) -> &mut keyed::Table<T>) -> Self {
        Self::of(
            move |state, all, now| table(state, now).replace(all),
            move |state, one, now| table(state, now).put(one),
            move |state, one, now| table(state, now).remove(&one),
        )
    }
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
            (self.take.replace)(state, all, now);
            state.is_read(self.part);
        });
    }

    fn put(&self, one: T) {
        self.mind.tell(|state, now| (self.take.put)(state, one, now));
    }

    fn remove(&self, one: T) {
        self.mind.tell(|state, now| (self.take.remove)(state, one, now));
    }
}

/// Follows everything for as long as the tasks are there.
pub fn follow_all(client: &Client, mind: &Arc<Mind>) -> JoinSet<()> {
    let (mut tasks, complaint) = (JoinSet::new(), Complaint::default());
    let mut begin = Begin { client, mind, tasks: &mut tasks, complaint };
    let take = Take::of(
        |state, all, now| state.replace_namespaces(all, now),
        |state, (name, labels): (String, Labels), now| state.put_namespace(&name, Some(labels), now),
        |state, (name, _), now| state.put_namespace(&name, None, now),
    );
    begin.feed(Kind::NAMESPACE, Part::Namespaces, NAMESPACE_FIELDS, namespace, take);
    let take = Take::of(
        |state, all, now| state.replace_nodes(all, now),
        |state, node, now| state.put_node(node, now),
        |state, node: Node, now| state.remove_node(&node.name, now),
    );
    begin.feed(Kind::NODE, Part::Nodes, node::FIELDS, Node::of, take);
    let known = Arc::new(Known::default());
    let (kept, over, gone) = (known.clone(), known.clone(), known.clone());
    let take = Take::of(
        move |state, all: Vec<Pod>, now| {
            kept.keep(&all);
            state.replace_pods(all, now);
        },
        move |state, pod: Pod, now| {
            if pod.is_over {
                over.forget(&pod);
            }
            state.put_pod(pod, now);
        },
        move |state, pod: Pod, now| {
            gone.forget(&pod);
            state.remove_pod(&pod.uid, now);
        },
    );
    begin.feed(Kind::POD, Part::Pods, pod::FIELDS, move |object| known.pod(object), take);
    let take = Take::into(|state, _| state.budgets());
    begin.feed(BUDGET, Part::Budgets, preempt::FIELDS, Budget::of, take);
    let take = Take::into(|state, now| &mut state.volumes(now).claims);
    begin.feed(CLAIM, Part::Claims, volumes::CLAIM_FIELDS, Claim::of, take);
    let take = Take::into(|state, now| &mut state.volumes(now).volumes);
    begin.feed(VOLUME, Part::Volumes, volumes::VOLUME_FIELDS, Volume::of, take);
    let take = Take::into(|state, now| &mut state.volumes(now).classes);
    begin.feed(CLASS, Part::Classes, volumes::CLASS_FIELDS, Class::of, take);
    for (kind, part) in SELECTING {
        let take = Take::of(
            |state, all, _| state.owners().replace(*part, all),
            |state, one, _| state.owners().put(*part, one),
            |state, one, _| state.owners().remove(*part, &one),
        );
        begin.feed(kind.clone(), *part, owners::FIELDS, Selecting::of, take);
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
        keep: impl Fn(&Json) -> T + Send + Sync + 'static,
        take: Take<T>,
    ) {
        let feed = Feed { mind: self.mind.clone(), part, fields, keep: Box::new(keep), take };
        self.tasks.spawn(follow(self.client.clone(), Arc::new(kind), feed, self.complaint.clone()));
    }
}

const NAMESPACE_FIELDS: &[&str] = &["metadata.name", "metadata.labels", "metadata.resourceVersion"];

fn namespace(object: &Json) -> (String, Labels) {
    (text_at(object, "metadata.name"), labels(at(object, "metadata.labels")))
}
