//! Asks extenders about a pod, in the order in which they are set.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use super::wire::{self, MetaVictims, Nodes};
use super::{Extender, Offer, Opinion};
use crate::controllers::{Client, Json, Kind};
use crate::scheduler::filter::Why;
use crate::scheduler::pod::Pod;

/// What the best score of an extender, which is 10, counts for among those that go to 100.
const SCALE: i64 = 10;

/// All of them, and where the objects are read that they are told of.
#[derive(Clone, Debug)]
pub struct Extenders {
    all: Arc<[Extender]>,
    client: Client,
}

/// A pod, and nodes with it, as they are told.
struct Told {
    pod: Value,
    nodes: HashMap<String, Value>,
}

impl Told {
    /// What an extender is told of these nodes.
    fn of(&self, extender: &Extender, names: &[String]) -> Value {
        let nodes = if extender.knows_nodes {
            Nodes::Names(names.to_vec())
        } else {
            Nodes::Whole(names.iter().filter_map(|name| self.nodes.get(name)).cloned().collect())
        };
        wire::args(&self.pod, &nodes)
    }
}

impl Extenders {
    /// Those who were set.
    pub fn new(all: Arc<[Extender]>, client: Client) -> Self {
        Self { all, client }
    }

    /// Which of these nodes may have the pod, and how much they are liked.
    ///
    /// # Errors
    /// Why one who has to answer does not, for people.
    pub async fn opinion(&self, pod: &Pod, nodes: Vec<String>) -> Result<Opinion, String> {
        let concerned: Vec<&Extender> = self.all.iter().filter(|one| one.chooses_for(pod)).collect();
        let told = self.told(pod, &nodes, concerned.iter().any(|one| !one.knows_nodes)).await?;
        let (mut left, mut refused) = (nodes, Vec::new());
        for extender in &concerned {
            let Some(verb) = extender.filter.as_deref().filter(|_| !left.is_empty()) else { continue };
            let answer = extender.caller.ask(verb, &told.of(extender, &left)).await;
            match answer.and_then(|answer| wire::filtered(&answer, extender.caller.url(), &left)) {
                Ok(said) => {
                    let whys = |all: BTreeMap<String, String>, never: bool| {
                        all.into_iter().map(move |(node, words)| (node, Why::Extender { words, never }))
                    };
                    refused.extend(whys(said.never, true).chain(whys(said.refused, false)));
                    left = said.left;
                }
                Err(error) if extender.is_ignorable => passed_over(extender, pod, &error),
                Err(error) => return Err(error),
            }
        }
        let mut scores: HashMap<String, i64> = left.iter().map(|name| (name.clone(), 0)).collect();
        // One alone is as good as any.
        if left.len() > 1 {
            let asked = concerned.iter().map(|extender| scores_of(extender, pod, &told, &left));
            for (name, score) in join_all(asked).await.into_iter().flatten() {
                if let Some(sum) = scores.get_mut(&name) {
                    *sum = sum.saturating_add(score);
                }
            }
        }
        Ok(Opinion { scores, refused })
    }

    /// Which of these offers stand, and who goes with them.
    ///
    /// # Errors
    /// Why one who has to answer does not, for people.
    pub async fn spare(&self, pod: &Pod, offers: Vec<Offer>) -> Result<Vec<Offer>, String> {
        let pods: HashMap<String, Arc<Pod>> = offers
            .iter()
            .flat_map(|offer| &offer.victims)
            .map(|pod| (pod.uid.clone(), pod.clone()))
            .collect();
        let mut left: HashMap<String, MetaVictims> = offers.into_iter().map(meta).collect();
        let concerned: Vec<&Extender> = self.all.iter().filter(|one| one.spares_for(pod)).collect();
        let told = self.told(pod, &[], false).await?;
        let whole = match concerned.iter().any(|one| !one.knows_nodes) {
            true => self.whole(&pods).await?,
            false => HashMap::new(),
        };
        for extender in concerned {
            let Some(verb) = extender.preempt.as_deref().filter(|_| !left.is_empty()) else { continue };
            let question = if extender.knows_nodes {
                wire::meta_victims(&told.pod, &left)
            } else {
                wire::victims(&told.pod, &left, &whole)
            };
            match extender.caller.ask(verb, &question).await {
                Ok(answer) => left = wire::spared(&answer),
                Err(error) if extender.is_ignorable => passed_over(extender, pod, &error),
                Err(error) => return Err(error),
            }
        }
        left.into_iter().map(|(node, on)| offer(node, on, &pods)).collect()
    }

    /// Has the pod given its node by who does that himself; `None` where nobody does.
    pub async fn bind(&self, pod: &Pod, node: &str) -> Option<Result<(), String>> {
        for extender in self.all.iter().filter(|one| one.cares_for(pod)) {
            let Some(verb) = &extender.bind else { continue };
            let answer = extender.caller.ask(verb, &wire::binding(pod, node)).await;
            match answer.and_then(|answer| wire::error_of(&answer)) {
                Err(error) if extender.is_ignorable => passed_over(extender, pod, &error),
                bound => return Some(bound),
            }
        }
        None
    }

    /// The pod and, where they are needed, nodes as the server has them.
    async fn told(&self, pod: &Pod, nodes: &[String], whole: bool) -> Result<Told, String> {
        let mut told =
            Told { pod: self.read(&Kind::POD, &pod.namespace, &pod.name).await?, nodes: HashMap::new() };
        if whole {
            let take = |node: Json| {
                let name = node.get("metadata").and_then(|of| of.get("name")).and_then(Value::as_str);
                if let Some(name) = name.filter(|name| nodes.iter().any(|other| other == name)) {
                    told.nodes.insert(name.to_owned(), Value::Object(node.clone()));
                }
            };
            self.client.list(&Kind::NODE, "", take).await.map_err(|error| error.whole())?;
        }
        Ok(told)
    }

    async fn whole(&self, pods: &HashMap<String, Arc<Pod>>) -> Result<HashMap<String, Value>, String> {
        let mut whole = HashMap::new();
        for (uid, pod) in pods {
            whole.insert(uid.clone(), self.read(&Kind::POD, &pod.namespace, &pod.name).await?);
        }
        Ok(whole)
    }

    async fn read(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.client.get(kind, namespace, name).await;
        found.map(Value::Object).map_err(|error| error.whole())
    }
}

/// How much he likes these nodes. That he does not say keeps no pod from its node.
async fn scores_of(extender: &Extender, pod: &Pod, told: &Told, nodes: &[String]) -> Vec<(String, i64)> {
    let Some(verb) = &extender.prioritize else { return Vec::new() };
    let answer = extender.caller.ask(verb, &told.of(extender, nodes)).await;
    match answer.and_then(|answer| wire::scores(&answer)) {
        Ok(scores) => {
            let weigh = |score: i64| score.saturating_mul(extender.weight).saturating_mul(SCALE);
            scores.into_iter().map(|(name, score)| (name, weigh(score))).collect()
        }
        Err(error) => {
            passed_over(extender, pod, &error);
            Vec::new()
        }
    }
}

fn meta(offer: Offer) -> (String, MetaVictims) {
    let uids = offer.victims.iter().map(|pod| pod.uid.clone()).collect();
    (offer.node, (uids, i64::try_from(offer.violations).unwrap_or(i64::MAX)))
}

fn offer(
    node: String,
    (uids, violations): MetaVictims,
    pods: &HashMap<String, Arc<Pod>>,
) -> Result<Offer, String> {
    let victim = |uid: &String| {
        let missing =
            || format!("an extender would have the pod with UID {uid} ended on {node}, which nobody offered");
        pods.get(uid).cloned().ok_or_else(missing)
    };
    let victims = uids.iter().map(victim).collect::<Result<_, _>>()?;
    Ok(Offer { node, victims, violations: usize::try_from(violations).unwrap_or_default() })
}

fn passed_over(extender: &Extender, pod: &Pod, error: &str) {
    let (url, pod) = (extender.caller.url(), pod.key());
    tracing::info!(url, pod, error, "an extender is passed over");
}
