//! Runs the configured extenders for a pod, in configuration order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::wire::{self, ExtenderArgs, MetaVictims};
use super::{Extender, ExtenderResults, PreemptionOffer};
use crate::controllers::{Client, Json, Kind};
use crate::objects::{self, ObjectMeta, PartialObject};
use crate::scheduler::filter::Reason;
use crate::scheduler::pod::Pod;

/// Factor from extender scores (0 to 10) to scheduler scores (0 to 100).
const SCALE: i64 = 10;
/// Maximum number of concurrent reads of victim pods, for extenders that need whole objects.
const MAX_CONCURRENT_READS: usize = 16;

/// All extenders, and the client that reads objects for them.
#[derive(Clone, Debug)]
pub struct Extenders {
    all: Arc<[Extender]>,
    client: Client,
}

/// Objects that extenders receive.
struct Payload {
    pod: Value,
    nodes: HashMap<String, Value>,
}

impl Payload {
    /// Returns the arguments for an extender: names, or whole nodes if the extender does not cache nodes.
    fn of<'a>(&'a self, extender: &Extender, names: &'a [String]) -> ExtenderArgs<'a> {
        if extender.node_cache_capable {
            return ExtenderArgs::named(&self.pod, names);
        }
        ExtenderArgs::whole(&self.pod, names.iter().filter_map(|name| self.nodes.get(name)).collect())
    }
}

impl Extenders {
    /// Creates the runner for the configured extenders.
    pub fn new(all: Arc<[Extender]>, client: Client) -> Self {
        Self { all, client }
    }

    /// Runs the filter and prioritize verbs. Returns the remaining nodes and their extender scores.
    ///
    /// # Errors
    /// If an extender that is not ignorable fails.
    pub async fn filter_and_prioritize(
        &self,
        pod: &Pod,
        nodes: Vec<String>,
    ) -> Result<ExtenderResults, String> {
        let concerned: Vec<&Extender> =
            self.all.iter().filter(|one| one.filters_or_prioritizes(pod)).collect();
        let payload = self.payload(pod, &nodes, concerned.iter().any(|one| !one.node_cache_capable)).await?;
        let (mut left, mut refused) = (nodes, Vec::new());
        for extender in &concerned {
            let Some(verb) = extender.filter.as_deref().filter(|_| !left.is_empty()) else { continue };
            let answer = extender.client.call(verb, &payload.of(extender, &left)).await;
            match answer.and_then(|answer| wire::filter_result(&answer, extender.client.url(), &left)) {
                Ok(preempt_result) => {
                    let whys = |all: BTreeMap<String, String>, unresolvable: bool| {
                        all.into_iter().map(move |(node, words)| {
                            (node, Reason::Extender { message: words, unresolvable })
                        })
                    };
                    refused.extend(
                        whys(preempt_result.unresolvable, true).chain(whys(preempt_result.refused, false)),
                    );
                    left = preempt_result.left;
                }
                Err(error) if extender.is_ignorable => log_ignored(extender, pod, &error),
                Err(error) => return Err(error),
            }
        }
        let mut scores: HashMap<String, i64> = left.iter().map(|name| (name.clone(), 0)).collect();
        // A single node needs no scores.
        if left.len() > 1 {
            let requests = concerned.iter().map(|extender| scores_of(extender, pod, &payload, &left));
            for (name, score) in join_all(requests).await.into_iter().flatten() {
                if let Some(sum) = scores.get_mut(&name) {
                    *sum = sum.saturating_add(score);
                }
            }
        }
        Ok(ExtenderResults { scores, refused })
    }

    /// Runs the preempt verb. Returns the remaining candidates and their victims.
    ///
    /// # Errors
    /// If an extender that is not ignorable fails.
    pub async fn process_preemption(
        &self,
        pod: &Pod,
        offers: Vec<PreemptionOffer>,
    ) -> Result<Vec<PreemptionOffer>, String> {
        let concerned: Vec<&Extender> = self.all.iter().filter(|one| one.supports_preemption(pod)).collect();
        let payload = self.payload(pod, &[], false).await?;
        let mut left: HashMap<String, PreemptionOffer> =
            offers.into_iter().map(|offer| (offer.node.clone(), offer)).collect();
        let mut whole = HashMap::new();
        if concerned.iter().any(|one| !one.node_cache_capable) {
            whole = self.whole(&left).await?;
            left.retain(|_, offer| {
                offer.victims.retain(|victim| whole.contains_key(&victim.uid));
                !offer.victims.is_empty()
            });
        }
        for extender in concerned {
            let Some(verb) = extender.preempt.as_deref().filter(|_| !left.is_empty()) else { continue };
            let question = if extender.node_cache_capable {
                wire::meta_victims(&payload.pod, &left)
            } else {
                wire::victims(&payload.pod, &left, &whole)
            };
            let answer = extender.client.call(verb, &question).await;
            let answer = answer.map(|answer| wire::preemption_result(&answer));
            match answer.and_then(|answer| apply_preemption(&left, answer, extender.is_ignorable)) {
                Ok(remaining) => left = remaining,
                Err(error) if extender.is_ignorable => log_ignored(extender, pod, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(left.into_values().collect())
    }

    /// Whether an extender binds this pod.
    pub fn binds(&self, pod: &Pod) -> bool {
        self.all.iter().any(|one| one.is_binder(pod))
    }

    /// Lets an extender bind the pod. Returns `None` if no extender binds it.
    pub async fn bind(&self, pod: &Pod, node: &str) -> Option<Result<(), String>> {
        for extender in self.all.iter().filter(|one| one.is_interested(pod)) {
            let Some(verb) = &extender.bind else { continue };
            let answer = extender.client.call(verb, &wire::binding(pod, node)).await;
            match answer.and_then(|answer| wire::error_of(&answer)) {
                Err(error) if extender.is_ignorable => log_ignored(extender, pod, &error),
                bound => return Some(bound),
            }
        }
        None
    }

    /// Reads the pod from the API server, and the node objects too if `whole` is true.
    async fn payload(&self, pod: &Pod, nodes: &[String], whole: bool) -> Result<Payload, String> {
        let mut payload =
            Payload { pod: self.read(&Kind::POD, &pod.namespace, &pod.name).await?, nodes: HashMap::new() };
        if whole {
            let wanted: HashSet<&str> = nodes.iter().map(String::as_str).collect();
            let take = |node: Json| {
                let name = metadata(&node).name;
                if wanted.contains(&*name) {
                    payload.nodes.insert(name.into(), Value::Object(node));
                }
            };
            self.client.list(&Kind::NODE, "", take).await.map_err(|error| error.full_message())?;
        }
        Ok(payload)
    }

    /// Reads all victims from the API server, by UID. Omits victims that no longer exist.
    async fn whole(
        &self,
        offers: &HashMap<String, PreemptionOffer>,
    ) -> Result<HashMap<String, Value>, String> {
        let victims: Vec<Arc<Pod>> = offers.values().flat_map(|offer| &offer.victims).cloned().collect();
        let read = |victim: Arc<Pod>| async move {
            match self.client.get(&Kind::POD, &victim.namespace, &victim.name).await {
                // A new pod with the same name is not the victim.
                Ok(found) if *metadata(&found).uid != *victim.uid => Ok(None),
                Ok(found) => Ok(Some((victim.uid.clone(), Value::Object(found)))),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.full_message()),
            }
        };
        let read = stream::iter(victims).map(read).buffer_unordered(MAX_CONCURRENT_READS);
        let found: Vec<Option<(String, Value)>> = read.try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn read(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.client.get(kind, namespace, name).await;
        found.map(Value::Object).map_err(|error| error.full_message())
    }
}

/// Returns the metadata of an object that is sent whole.
fn metadata(object: &Json) -> ObjectMeta {
    objects::read::<PartialObject>(object).metadata
}

/// Returns the weighted scores of an extender. If the call fails, its scores are ignored.
async fn scores_of(
    extender: &Extender,
    pod: &Pod,
    payload: &Payload,
    nodes: &[String],
) -> Vec<(String, i64)> {
    let Some(verb) = &extender.prioritize else { return Vec::new() };
    let answer = extender.client.call(verb, &payload.of(extender, nodes)).await;
    match answer.and_then(|answer| wire::scores(&answer)) {
        Ok(scores) => {
            let weigh = |score: i64| score.saturating_mul(extender.weight).saturating_mul(SCALE);
            scores.into_iter().map(|(name, score)| (name, weigh(score))).collect()
        }
        Err(error) => {
            log_ignored(extender, pod, &error);
            Vec::new()
        }
    }
}

/// Applies a preempt response to the candidates. If the extender is ignorable, a node without victims is omitted;
/// otherwise it is an error.
///
/// # Errors
/// If the response names a node or a pod that was not offered.
fn apply_preemption(
    offers: &HashMap<String, PreemptionOffer>,
    answer: HashMap<String, MetaVictims>,
    is_ignorable: bool,
) -> Result<HashMap<String, PreemptionOffer>, String> {
    let mut remaining = HashMap::new();
    for (node, (uids, violations)) in answer {
        let Some(offer) = offers.get(&node) else {
            return Err(format!("an extender selected victims on {node}, which is not a candidate"));
        };
        let victim = |uid: &String| {
            let found = offer.victims.iter().find(|victim| victim.uid == *uid).cloned();
            found.ok_or_else(|| {
                format!("an extender selected the pod with UID {uid} on {node}, which is not a candidate")
            })
        };
        let victims: Vec<Arc<Pod>> = uids.iter().map(victim).collect::<Result<_, _>>()?;
        if !victims.is_empty() {
            let violations = usize::try_from(violations).unwrap_or_default();
            remaining.insert(node.clone(), PreemptionOffer { node, victims, violations });
        } else if !is_ignorable {
            return Err(format!("expected at least one victim pod on node \"{node}\""));
        }
    }
    Ok(remaining)
}

fn log_ignored(extender: &Extender, pod: &Pod, error: &str) {
    let (url, pod) = (extender.client.url(), pod.key());
    tracing::info!(url, pod, error, "ignoring the error of an ignorable extender");
}

#[cfg(test)]
mod tests {
    //! Tests of preempt responses.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn offer(node: &str, uids: &[&str]) -> (String, PreemptionOffer) {
        let victim = |uid: &&str| Arc::new(Pod { uid: (*uid).to_owned(), ..Pod::default() });
        let victims = uids.iter().map(victim).collect();
        (node.to_owned(), PreemptionOffer { node: node.to_owned(), victims, violations: 0 })
    }

    fn preempt_result(answer: &[(&str, &[&str])], is_ignorable: bool) -> Result<String, String> {
        let offers = HashMap::from([offer("a", &["1", "2"]), offer("b", &["3"])]);
        let one = |(node, uids): &(&str, &[&str])| {
            ((*node).to_owned(), (uids.iter().map(|uid| (*uid).to_owned()).collect(), 0))
        };
        let mut remaining: Vec<PreemptionOffer> =
            apply_preemption(&offers, answer.iter().map(one).collect(), is_ignorable)?
                .into_values()
                .collect();
        remaining.sort_by(|one, other| one.node.cmp(&other.node));
        let text = |offer: &PreemptionOffer| {
            let victims: Vec<&str> = offer.victims.iter().map(|victim| victim.uid.as_str()).collect();
            format!("{} {}", offer.node, victims.join(" "))
        };
        Ok(remaining.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn extender_victims_must_be_offered_on_their_node() {
        assert_eq!(preempt_result(&[("a", &["2"]), ("b", &["3"])], false).unwrap(), "a 2, b 3");
        assert_eq!(preempt_result(&[], false).unwrap(), "");
        for answer in [&[("a", &["3"] as &[_])], &[("a", &["9"])], &[("c", &["1"])]] {
            assert!(
                preempt_result(answer, false).unwrap_err().ends_with("which is not a candidate"),
                "{answer:?}"
            );
        }
        // A node without victims would always have the lowest cost.
        let no_victims: &[(&str, &[&str])] = &[("a", &[]), ("b", &["3"])];
        assert_eq!(
            preempt_result(no_victims, false).unwrap_err(),
            "expected at least one victim pod on node \"a\""
        );
        assert_eq!(preempt_result(no_victims, true).unwrap(), "b 3");
    }
}
