//! Which pods of the master run here: what it says of them, and how far that is believed. Pure.
//!
//! Nothing is ended on doubt. A list counts once the server that gave it has shown that it knows this node. One that is behind what was
//! seen before, or far ahead of it, or of a cluster that knows this node as another, is of a master that was restored or made anew: it
//! begins pods and ends none, and those that it does not name run on until somebody says what is to become of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::{ObjectName, Problem};
use apiserver::auth::nodes::Object;
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::line::{self, Line};
use super::shelf::{Missing, Shelf};
use crate::cluster::follow::Told;
use crate::desired::{Completeness, Found, FoundProblem, Held, Snapshot, SourceKind};
use crate::observed::PodUid;

/// Where pods of the master come from, for people.
const ORIGIN: &str = "the API server";

/// Which master was believed last, and how far it had come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Seen {
    /// The UID of this node's Node there.
    pub node_uid: Option<String>,
    /// The newest version that was seen there.
    pub version: Option<u64>,
}

/// A pod that this node was given, as the next kubelet is to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lasting {
    /// The pod.
    pub pod: Arc<Pod>,
    /// A master that lost something does not name it: only somebody who knows ends it.
    pub is_unclaimed: bool,
    /// It has been told of: what it refers to has been looked for.
    pub is_told: bool,
}

/// A pod that this node was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// What lasts of it.
    pub lasting: Lasting,
    /// The ConfigMaps and Secrets that it names.
    refers: BTreeSet<Object>,
}

/// What a server said last.
#[derive(Debug)]
struct Said {
    pods: BTreeMap<PodUid, Line>,
    version: Option<u64>,
    is_believed: bool,
}

impl Said {
    /// Whether there is a pod of that name.
    fn has_namesake(&self, pod: &Pod) -> bool {
        let (namespace, name) = (pod.metadata.namespace.as_ref(), pod.metadata.name.as_ref());
        let is_one = |line: &Line| Some(&line.name.namespace) == namespace && Some(&line.name.name) == name;
        self.pods.values().any(is_one)
    }
}

/// All pods of the master.
#[derive(Debug)]
pub struct Book {
    node: String,
    given: BTreeMap<PodUid, Given>,
    said: Option<Said>,
    seen: Seen,
    /// Counts lists that were heard.
    heard: u64,
    /// Counts lists that were believed.
    lists: u64,
}

impl Book {
    /// None, for the node of that name.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            given: BTreeMap::new(),
            said: None,
            seen: Seen::default(),
            heard: 0,
            lists: 0,
        }
    }

    /// What an earlier kubelet was given.
    pub fn restore(&mut self, pods: Vec<Lasting>, seen: Seen) {
        self.seen = seen;
        for lasting in pods {
            let refers = line::refers(&serde_json::to_value(&*lasting.pod).unwrap_or_default());
            let uid = PodUid::new(lasting.pod.metadata.uid.as_deref().unwrap_or_default());
            self.given.insert(uid, Given { lasting, refers });
        }
    }

    /// Takes what was heard; false when it is only to be understood with a list before it.
    pub fn hear(&mut self, told: Told<Value>) -> bool {
        if let (Some(said), Told::Put(value) | Told::Gone(value)) = (&self.said, &told)
            && line::is_restored(said.version, said.version.max(line::version(value)))
        {
            return false;
        }
        match told {
            Told::All(values, version) => {
                self.heard += 1;
                let lines = values.into_iter().filter_map(|value| Line::read(value, &self.node));
                let pods = lines.map(|line| (line.uid.clone(), line)).collect();
                self.said = Some(Said { pods, version: version.parse().ok(), is_believed: false });
            }
            Told::Put(value) => {
                if let (Some(said), Some(line)) = (&mut self.said, Line::read(value, &self.node)) {
                    said.version = said.version.max(line.version);
                    said.pods.insert(line.uid.clone(), line);
                }
            }
            Told::Gone(value) => {
                if let (Some(said), Some(line)) = (&mut self.said, Line::read(value, &self.node)) {
                    said.version = said.version.max(line.version);
                    said.pods.remove(&line.uid);
                    // Of this very pod it is said, by one who knew it.
                    if said.is_believed {
                        self.given.remove(&line.uid);
                    }
                }
            }
        }
        self.take_over();
        true
    }

    /// Whether there is a list of which is not known whether its server knows this node.
    pub fn is_in_doubt(&self) -> bool {
        self.said.as_ref().is_some_and(|said| !said.is_believed)
    }

    /// The server knows this node, by that UID. Pods that are missing and that nobody can say of why are returned.
    pub fn confirm(&mut self, node_uid: &str) -> Vec<ObjectName> {
        let Some(said) = self.said.as_mut().filter(|said| !said.is_believed) else { return Vec::new() };
        said.is_believed = true;
        self.lists += 1;
        let is_known = self.seen.node_uid.as_deref().is_none_or(|known| known == node_uid);
        let mut missing = Vec::new();
        if !is_known || line::is_restored(self.seen.version, said.version) {
            for (uid, Given { lasting, .. }) in &mut self.given {
                let is_told = said.pods.contains_key(uid) || said.has_namesake(&lasting.pod);
                if !lasting.is_unclaimed && !is_told {
                    lasting.is_unclaimed = true;
                    // One that is being ended has its time for that still, and is not missed.
                    if !is_doomed(&lasting.pod) {
                        missing.push(Held::Pod(lasting.pod.clone()).object_name());
                    }
                }
            }
        }
        if !is_known {
            // Versions of one cluster say nothing in another.
            self.seen.version = None;
        }
        self.seen.node_uid = Some(node_uid.to_owned());
        self.take_over();
        missing
    }

    /// What was said and is believed, from now on.
    fn take_over(&mut self) {
        let Some(said) = self.said.as_ref().filter(|said| said.is_believed) else { return };
        self.seen.version = self.seen.version.max(said.version);
        self.given.retain(|uid, Given { lasting, .. }| {
            said.pods.contains_key(uid) || lasting.is_unclaimed && !said.has_namesake(&lasting.pod)
        });
        for (uid, line) in said.pods.iter().filter(|(_, line)| line.is_to_run) {
            let Ok(pod) = &line.pod else { continue };
            match self.given.get_mut(uid) {
                Some(given) => {
                    given.lasting.is_unclaimed = false;
                    if given.lasting.pod != *pod {
                        given.lasting.pod = pod.clone();
                        given.refers.clone_from(&line.refers);
                    }
                }
                // What has come to its end before this node had it is not begun here.
                None if line.is_over() => {}
                None => {
                    let lasting = Lasting { pod: pod.clone(), is_unclaimed: false, is_told: false };
                    self.given.insert(uid.clone(), Given { lasting, refers: line.refers.clone() });
                }
            }
        }
    }

    /// The pod is over by the API's word, and it is not for this node to say so: it is run no more.
    pub fn give_up(&mut self, uid: &PodUid) -> bool {
        self.given.remove(uid).is_some()
    }

    /// Nothing is left of a pod: one that was to go, and that nobody names any more, is done with.
    pub fn ended(&mut self, uid: &PodUid) -> bool {
        let is_done = |Given { lasting, .. }: &Given| lasting.is_unclaimed && is_doomed(&lasting.pod);
        self.given.get(uid).is_some_and(is_done) && self.give_up(uid)
    }

    /// Every pod that this node was given.
    pub fn given(&self) -> impl Iterator<Item = (&PodUid, &Given)> {
        self.given.iter()
    }

    /// Which master was believed last.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Whether a pod runs on that a master which lost something does not name.
    pub fn has_unclaimed(&self) -> bool {
        self.given.values().any(|Given { lasting, .. }| lasting.is_unclaimed && !is_doomed(&lasting.pod))
    }

    /// A pod as the API has it, where that is believed.
    pub fn there(&self, uid: &PodUid) -> Option<&Line> {
        self.believed()?.pods.get(uid)
    }

    /// Every pod that the API has of this node, where that is believed and nothing newer is in doubt.
    pub fn lines(&self) -> Option<impl Iterator<Item = &Line>> {
        Some(self.believed()?.pods.values())
    }

    fn believed(&self) -> Option<&Said> {
        self.said.as_ref().filter(|said| said.is_believed)
    }

    /// Notes what the API answered to a status.
    pub fn answered(&mut self, value: Value) {
        let Some(line) = Line::read(value, &self.node) else { return };
        let there = self.said.as_mut().and_then(|said| said.pods.get_mut(&line.uid));
        // What has been heard meanwhile may be newer.
        if let Some(there) = there.filter(|there| there.version <= line.version) {
            *there = line;
            self.take_over();
        }
    }

    /// Every pod that the API has of this node, where that is believed.
    pub fn all_there(&self) -> impl Iterator<Item = &PodUid> {
        self.believed().into_iter().flat_map(|said| said.pods.keys())
    }

    /// How many lists were heard so far.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// How many lists were believed so far.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// The ConfigMaps and Secrets that pods here name.
    pub fn refers(&self) -> BTreeSet<Object> {
        self.given.values().flat_map(|given| given.refers.iter().cloned()).collect()
    }

    /// The pods that have something to do here still.
    pub fn at_work(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let is_over = |uid: &PodUid| self.there(uid).is_some_and(Line::is_over);
        self.given.iter().filter(move |(uid, _)| !is_over(uid)).map(|(_, given)| &given.lasting.pod)
    }

    /// Those among them that pods name of which a master that lost something does not know.
    pub fn refers_unclaimed(&self) -> BTreeSet<Object> {
        let unclaimed = self.given.values().filter(|given| given.lasting.is_unclaimed);
        unclaimed.flat_map(|given| given.refers.iter().cloned()).collect()
    }

    /// All that the master wants here, the oldest pods first. A pod that is new waits until what it refers to has been looked for.
    pub fn snapshot(&mut self, shelf: &Shelf) -> Snapshot {
        let origin: Arc<str> = Arc::from(ORIGIN);
        let found =
            |object: Held| Found { name: Arc::new(object.object_name()), object, origin: origin.clone() };
        let (mut pods, mut waiting) = (Vec::new(), BTreeSet::new());
        for (uid, Given { lasting, refers }) in &mut self.given {
            lasting.is_told |= is_doomed(&lasting.pod) || shelf.missing(uid, refers).is_empty();
            if lasting.is_told {
                pods.push(lasting.pod.clone());
            } else {
                waiting.insert(uid.clone());
            }
        }
        let age = |pod: &Arc<Pod>| (pod.metadata.creation_timestamp.clone(), pod.metadata.uid.clone());
        pods.sort_by_cached_key(age);
        let pods = pods.into_iter().map(Held::Pod);
        Snapshot {
            source: SourceKind::Api,
            objects: pods.chain(shelf.held().cloned()).map(found).collect(),
            waiting,
            problems: self.problems(&origin),
            completeness: if self.lists > 0 { Completeness::Complete } else { Completeness::Incomplete },
        }
    }

    /// A pod, and what it waits for before it begins.
    pub fn awaited(&self, uid: &PodUid, shelf: &Shelf) -> Option<(&Arc<Pod>, Vec<Missing>)> {
        let given = self.given.get(uid).filter(|given| !given.lasting.is_told)?;
        Some((&given.lasting.pod, shelf.missing(uid, &given.refers)))
    }

    fn problems(&self, origin: &Arc<str>) -> Vec<FoundProblem> {
        let lines = self.said.iter().flat_map(|said| said.pods.values());
        let wrong = lines.filter_map(|line| Some((line, line.pod.as_ref().err()?)));
        let problem = |(line, why): (&Line, &String)| FoundProblem {
            origin: origin.clone(),
            problem: Problem {
                line: 0,
                column: 0,
                path: String::new(),
                what: format!("{} does not read: {why}", line.name),
                remedy: "write it as this version of the API knows it".to_owned(),
                object: Some(line.name.clone()),
            },
            last_good: self.given.contains_key(&line.uid),
        };
        wrong.map(problem).collect()
    }
}

fn is_doomed(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
