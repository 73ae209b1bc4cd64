//! Informers of the scheduler: which resources it watches, and the event handlers that update the state.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::SharedState;
use super::node::Node;
use super::pod::Pod;
use super::preempt::Budget;
use super::selector_sources::SelectorSource;
use super::spec_cache::SpecCache;
use super::state::{InformerKind, State};
use super::store::{self, Keyed};
use super::volumes::{Claim, Class, Volume};
use crate::controllers::{CLAIM, CLASS, Client, Kind, ProblemReporter, Store, VOLUME, run_reflector};
use crate::objects::PartialObject;
use crate::objects::labels::Labels;
use crate::objects::workload::PodSelecting;

const BUDGET: Kind = Kind::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", true);
const CONTROLLER: Kind = Kind::of("", "ReplicationController", "replicationcontrollers", true);
const REPLICA_SET: Kind = Kind::of("apps", "ReplicaSet", "replicasets", true);
const STATEFUL_SET: Kind = Kind::of("apps", "StatefulSet", "statefulsets", true);

/// Event handlers of one informer.
struct ResourceHandler<T> {
    state: Arc<SharedState>,
    informer: InformerKind,
    decode: Decode<T>,
    handlers: Handlers<T>,
}

/// Decodes an object into the compact type that the state keeps.
type Decode<T> = Box<dyn Fn(&RawValue) -> Result<T, serde_json::Error> + Send + Sync>;

/// How the initial list and later events change the state.
struct Handlers<T> {
    replace: Handler<Vec<T>>,
    put: Handler<T>,
    remove: Handler<T>,
}

type Handler<T> = Box<dyn Fn(&mut State, T, Instant) + Send + Sync>;

impl<T: 'static> Handlers<T> {
    fn of(
        replace: impl Fn(&mut State, Vec<T>, Instant) + Send + Sync + 'static,
        put: impl Fn(&mut State, T, Instant) + Send + Sync + 'static,
        remove: impl Fn(&mut State, T, Instant) + Send + Sync + 'static,
    ) -> Self {
        Self { replace: Box::new(replace), put: Box::new(put), remove: Box::new(remove) }
    }
}

impl<T: Keyed + 'static> Handlers<T> {
    /// Keeps the objects in a store of the scheduler's state.
    fn into(table: fn(&mut State, Instant) -> &mut store::Store<T>) -> Self {
        Self::of(
            move |state, all, now| table(state, now).replace(all),
            move |state, one, now| table(state, now).put(one),
            move |state, one, now| table(state, now).remove(&one),
        )
    }
}

impl<T: Send + 'static> Store for ResourceHandler<T> {
    type Object = T;

    fn decode(&self, json: &RawValue) -> Result<T, serde_json::Error> {
        (self.decode)(json)
    }

    fn replace(&self, all: Vec<T>) {
        self.state.update(|state, now| {
            (self.handlers.replace)(state, all, now);
            state.mark_synced(self.informer);
        });
    }

    fn put(&self, one: T) {
        self.state.update(|state, now| (self.handlers.put)(state, one, now));
    }

    fn remove(&self, one: T) {
        self.state.update(|state, now| (self.handlers.remove)(state, one, now));
    }
}

/// Starts one informer per resource. Dropping the returned tasks stops them.
pub fn start_informers(client: &Client, state: &Arc<SharedState>) -> JoinSet<()> {
    let (mut tasks, problems) = (JoinSet::new(), ProblemReporter::default());
    let mut informers = Informers { client, state, tasks: &mut tasks, problems };
    let handlers = Handlers::of(
        |state, all, now| state.replace_namespaces(all, now),
        |state, (name, labels): (String, Labels), now| state.put_namespace(&name, Some(labels), now),
        |state, (name, _), now| state.put_namespace(&name, None, now),
    );
    informers.start(Kind::NAMESPACE, InformerKind::Namespaces, namespace, handlers);
    let handlers = Handlers::of(
        |state, all, now| state.replace_nodes(all, now),
        |state, node, now| state.put_node(node, now),
        |state, node: Node, now| state.remove_node(&node.name, now),
    );
    informers.start(Kind::NODE, InformerKind::Nodes, Node::of, handlers);
    let cache = Arc::new(SpecCache::default());
    let (listed, terminal, deleted) = (cache.clone(), cache.clone(), cache.clone());
    let handlers = Handlers::of(
        move |state, all: Vec<Pod>, now| {
            listed.retain(&all);
            state.replace_pods(all, now);
        },
        move |state, pod: Pod, now| {
            if pod.is_terminal {
                terminal.forget(&pod);
            }
            state.put_pod(pod, now);
        },
        move |state, pod: Pod, now| {
            deleted.forget(&pod);
            state.remove_pod(&pod.uid, now);
        },
    );
    informers.start(Kind::POD, InformerKind::Pods, move |object| cache.pod(object), handlers);
    let handlers = Handlers::into(|state, _| state.budgets());
    informers.start(BUDGET, InformerKind::Budgets, Budget::of, handlers);
    let handlers = Handlers::into(|state, now| &mut state.volumes(now).claims);
    informers.start(CLAIM, InformerKind::Claims, Claim::of, handlers);
    let handlers = Handlers::into(|state, now| &mut state.volumes(now).volumes);
    informers.start(VOLUME, InformerKind::Volumes, Volume::of, handlers);
    let handlers = Handlers::into(|state, now| &mut state.volumes(now).classes);
    informers.start(CLASS, InformerKind::Classes, Class::of, handlers);
    informers.start_selector_source(Kind::SERVICE, InformerKind::Services, SelectorSource::of_labels);
    informers.start_selector_source(CONTROLLER, InformerKind::Controllers, SelectorSource::of_labels);
    informers.start_selector_source(REPLICA_SET, InformerKind::ReplicaSets, SelectorSource::of_selector);
    informers.start_selector_source(STATEFUL_SET, InformerKind::StatefulSets, SelectorSource::of_selector);
    tasks
}

struct Informers<'a> {
    client: &'a Client,
    state: &'a Arc<SharedState>,
    tasks: &'a mut JoinSet<()>,
    problems: ProblemReporter,
}

impl Informers<'_> {
    /// Starts the informer of a resource. `parse` converts the decoded object.
    fn start<O: DeserializeOwned, T: Send + 'static>(
        &mut self,
        kind: Kind,
        informer: InformerKind,
        parse: impl Fn(O) -> T + Send + Sync + 'static,
        handlers: Handlers<T>,
    ) {
        let decode = move |json: &RawValue| Ok(parse(serde_json::from_str(json.get())?));
        let handler =
            ResourceHandler { state: self.state.clone(), informer, decode: Box::new(decode), handlers };
        self.tasks.spawn(run_reflector(self.client.clone(), Arc::new(kind), handler, self.problems.clone()));
    }

    /// Starts the informer of a resource whose selector matches pods, used for default topology spreading.
    fn start_selector_source<S: Default + DeserializeOwned + 'static>(
        &mut self,
        kind: Kind,
        informer: InformerKind,
        parse: fn(PodSelecting<S>) -> SelectorSource,
    ) {
        let handlers = Handlers::of(
            move |state, all, _| state.selector_sources().replace(informer, all),
            move |state, one, _| state.selector_sources().put(informer, one),
            move |state, one, _| state.selector_sources().remove(informer, &one),
        );
        self.start(kind, informer, parse, handlers);
    }
}

fn namespace(object: PartialObject) -> (String, Labels) {
    (object.metadata.name.into(), object.metadata.labels)
}
