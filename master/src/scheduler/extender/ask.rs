//! Asks extenders about a pod, in the order in which they are set.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::wire::{self, Args, MetaVictims};
use super::{Extender, Offer, Opinion};
use crate::controllers::{Client, Json, Kind};
use crate::scheduler::filter::Why;
use crate::scheduler::pod::Pod;
use crate::scheduler::read::text_at;

/// What the best score of an extender, which is 10, counts for among those that go to 100.
const SCALE: i64 = 10;
/// Pods that are read at once for who is told of them whole.
const READ_AT_ONCE: usize = 16;

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
    fn of<'a>(&'a self, extender: &Extender, names: &'a [String]) -> Args<'a> {
        if extender.knows_nodes {
            return Args::named(&self.pod, names);
        }
        Args::whole(&self.pod, names.iter().filter_map(|name| self.nodes.get(name)).collect())
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
        let concerned: Vec<&Extender> = self.all.iter().filter(|one| one.spares_for(pod)).collect();
        let told = self.told(pod, &[], false).await?;
        let mut left: HashMap<String, Offer> =
            offers.into_iter().map(|offer| (offer.node.clone(), offer)).collect();
        let mut whole = HashMap::new();
        if concerned.iter().any(|one| !one.knows_nodes) {
            whole = self.whole(&left).await?;
            left.retain(|_, offer| {
                offer.victims.retain(|victim| whole.contains_key(&victim.uid));
                !offer.victims.is_empty()
            });
        }
        for extender in concerned {
            let Some(verb) = extender.preempt.as_deref().filter(|_| !left.is_empty()) else { continue };
            let question = if extender.knows_nodes {
                wire::meta_victims(&told.pod, &left)
            } else {
                wire::victims(&told.pod, &left, &whole)
            };
            let answer = extender.caller.ask(verb, &question).await;
            let answer = answer.map(|answer| wire::spared(&answer));
            match answer.and_then(|answer| stand(&left, answer, extender.is_ignorable)) {
                Ok(standing) => left = standing,
                Err(error) if extender.is_ignorable => passed_over(extender, pod, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(left.into_values().collect())
    }

    /// Whether there is one who gives that pod its node himself.
    pub fn bind_for(&self, pod: &Pod) -> bool {
        self.all.iter().any(|one| one.binds_for(pod))
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
            let wanted: HashSet<&str> = nodes.iter().map(String::as_str).collect();
            let take = |node: Json| {
                let name = node.get("metadata").and_then(|of| of.get("name")).and_then(Value::as_str);
                if let Some(name) = name.filter(|name| wanted.contains(name)).map(str::to_owned) {
                    told.nodes.insert(name, Value::Object(node));
                }
            };
            self.client.list(&Kind::NODE, "", take).await.map_err(|error| error.whole())?;
        }
        Ok(told)
    }

    /// All who would go as the server has them, without those who are gone already.
    async fn whole(&self, offers: &HashMap<String, Offer>) -> Result<HashMap<String, Value>, String> {
        let victims: Vec<Arc<Pod>> = offers.values().flat_map(|offer| &offer.victims).cloned().collect();
        let read = |victim: Arc<Pod>| async move {
            match self.client.get(&Kind::POD, &victim.namespace, &victim.name).await {
                // One of its name that came after it is another one.
                Ok(found) if text_at(&found, "metadata.uid") != victim.uid => Ok(None),
                Ok(found) => Ok(Some((victim.uid.clone(), Value::Object(found)))),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.whole()),
            }
        };
        let read = stream::iter(victims).map(read).buffer_unordered(READ_AT_ONCE);
        let found: Vec<Option<(String, Value)>> = read.try_collect().await?;
        Ok(found.into_iter().flatten().collect())
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

/// Which of the offers stand by an answer, and who goes with them. One without anybody who goes is none: it is left out where it
/// may be, and else the answer is wrong.
///
/// # Errors
/// What of it nobody offered.
fn stand(
    offers: &HashMap<String, Offer>,
    answer: HashMap<String, MetaVictims>,
    is_ignorable: bool,
) -> Result<HashMap<String, Offer>, String> {
    let mut standing = HashMap::new();
    for (node, (uids, violations)) in answer {
        let Some(offer) = offers.get(&node) else {
            return Err(format!("an extender would have pods ended on {node}, which nobody offered"));
        };
        let victim = |uid: &String| {
            let found = offer.victims.iter().find(|victim| victim.uid == *uid).cloned();
            found.ok_or_else(|| {
                format!("an extender would have the pod with UID {uid} ended on {node}, which nobody offered")
            })
        };
        let victims: Vec<Arc<Pod>> = uids.iter().map(victim).collect::<Result<_, _>>()?;
        if !victims.is_empty() {
            let violations = usize::try_from(violations).unwrap_or_default();
            standing.insert(node.clone(), Offer { node, victims, violations });
        } else if !is_ignorable {
            return Err(format!("expected at least one victim pod on node \"{node}\""));
        }
    }
    Ok(standing)
}

fn passed_over(extender: &Extender, pod: &Pod, error: &str) {
    let (url, pod) = (extender.caller.url(), pod.key());
    tracing::info!(url, pod, error, "an extender is passed over");
}

#[cfg(test)]
mod tests {
    //! Which answers count.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn offer(node: &str, uids: &[&str]) -> (String, Offer) {
        let victim = |uid: &&str| Arc::new(Pod { uid: (*uid).to_owned(), ..Pod::default() });
        let victims = uids.iter().map(victim).collect();
        (node.to_owned(), Offer { node: node.to_owned(), victims, violations: 0 })
    }

    fn said(answer: &[(&str, &[&str])], is_ignorable: bool) -> Result<String, String> {
        let offers = HashMap::from([offer("a", &["1", "2"]), offer("b", &["3"])]);
        let one = |(node, uids): &(&str, &[&str])| {
            ((*node).to_owned(), (uids.iter().map(|uid| (*uid).to_owned()).collect(), 0))
        };
        let mut standing: Vec<Offer> =
            stand(&offers, answer.iter().map(one).collect(), is_ignorable)?.into_values().collect();
        standing.sort_by(|one, other| one.node.cmp(&other.node));
        let text = |offer: &Offer| {
            let victims: Vec<&str> = offer.victims.iter().map(|victim| victim.uid.as_str()).collect();
            format!("{} {}", offer.node, victims.join(" "))
        };
        Ok(standing.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn who_goes_is_who_was_offered_on_that_node() {
        assert_eq!(said(&[("a", &["2"]), ("b", &["3"])], false).unwrap(), "a 2, b 3");
        assert_eq!(said(&[], false).unwrap(), "");
        for answer in [&[("a", &["3"] as &[_])], &[("a", &["9"])], &[("c", &["1"])]] {
            assert!(said(answer, false).unwrap_err().ends_with("which nobody offered"), "{answer:?}");
        }
        // Nobody who goes would be the least cost of all.
        let nobody: &[(&str, &[&str])] = &[("a", &[]), ("b", &["3"])];
        assert_eq!(said(nobody, false).unwrap_err(), "expected at least one victim pod on node \"a\"");
        assert_eq!(said(nobody, true).unwrap(), "b 3");
    }
}
