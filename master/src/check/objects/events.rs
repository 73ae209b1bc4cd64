//! Warnings of the last hour, by reason: how often, of how many objects, and the latest one. What has passed since is not told of:
//! something went well with the object later, it has become ready, or it is gone. Of a Node much is told that has nothing to do with
//! each other, so there only what ends a warning ends it. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::World;
use super::field::{condition, joined, text};
use crate::check::finding::{Finding, counted};
use crate::controllers::{Object, happened};

/// How far back events are told of; a server keeps them about as long.
const LATELY: SignedDuration = SignedDuration::from_hours(1);
/// Normal events that do not say that anything went well.
const TRIES: &[&str] = &["BackOff", "Killing", "Pulling"];

/// What a kubelet tells of its Node when something is well again, and the warnings that this ends. Who warns of the cluster warns
/// again every ten minutes while it lasts; trouble of the network of pods is told once, and that all of it is over.
const MENDS: &[(&str, &[&str])] = &[
    ("CertificateInUse", &["CertificateForeign", "CertificateRefused", "CertificateTrouble"]),
    ("ClusterChanged", &["ClusterChanged", "ClusterInfoDoubted", "ClusterInfoTrouble"]),
    ("ClusterTroubleOver", &["ClusterTrouble"]),
    ("MasterBack", &["ClusterUnheard", "LeaseNotRenewed", "NodeNotRegistered", "PodsNotTold"]),
    ("NodeReady", &["NodeNotReady"]),
    ("NodeRegistered", &["MasterDoubted", "NodeNotRegistered"]),
    ("NodesShown", &["NodesNotShown"]),
    ("PodNetworkTroubleOver", &["PodNetworkTrouble"]),
    ("PodsClaimed", &["PodsUnclaimed"]),
];
/// Warnings that end when a Node becomes ready: its engine answers, and its cluster is told so.
const NOT_READY: &[&str] = &["NodeNotReady", "NodeNotRegistered"];
/// Each is got and kept for itself, under the same reasons.
const CERTIFICATES: &[&str] = &["client certificate", "serving certificate"];

/// Events of one reason.
#[derive(Default)]
struct Group<'a> {
    count: usize,
    objects: BTreeSet<String>,
    latest: Option<(Timestamp, &'a Object)>,
}

/// What warnings there were, the most frequent first.
pub fn findings(world: &World) -> Vec<Finding> {
    let passed = Passed::of(world);
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for event in world.of("events").iter().filter(|event| text(event, "/type") == "Warning") {
        let Some(at) = happened(event).filter(|at| world.now.duration_since(*at) <= LATELY) else { continue };
        if passed.has(event, at) {
            continue;
        }
        let group = groups.entry(text(event, "/reason")).or_default();
        group.count = group.count.saturating_add(times(event));
        group.objects.insert(about(event));
        if group.latest.is_none_or(|(before, _)| before <= at) {
            group.latest = Some((at, event));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    groups.into_iter().map(|(reason, group)| finding(reason, &group)).collect()
}

/// An object that events are about: its kind, namespace and name.
type About<'a> = (&'a str, &'a str, &'a str);

/// What is past of what was told of objects.
#[derive(Default)]
struct Passed<'a> {
    /// Until when all of it is; of a Node, what its readiness ends.
    until: HashMap<About<'a>, Timestamp>,
    /// What went well with each Node, and when.
    mends: HashMap<About<'a>, Vec<(Timestamp, &'a Object)>>,
    /// Kinds of which all objects are known, and those there are.
    kinds: Vec<&'static str>,
    there: BTreeSet<About<'a>>,
}

impl<'a> Passed<'a> {
    fn of(world: &'a World) -> Self {
        let mut passed = Self::default();
        let is_well =
            |event: &&Object| text(event, "/type") == "Normal" && !TRIES.contains(&text(event, "/reason"));
        for event in world.of("events").iter().filter(is_well) {
            let Some(at) = happened(event) else { continue };
            match of(event) {
                about @ ("Node", ..) => passed.mends.entry(about).or_default().push((at, event)),
                about => passed.settle(about, at),
            }
        }
        for (kind, plural) in [("Pod", "pods"), ("Node", "nodes")] {
            let Some(objects) = world.all_of(plural) else { continue };
            passed.kinds.push(kind);
            for object in objects {
                let about = (kind, object.namespace.as_str(), object.name.as_str());
                passed.there.insert(about);
                let ready = condition(object, "Ready");
                let is_well = ready.holds() || text(object, "/status/phase") == "Succeeded";
                if let Some(since) = ready.since.parse().ok().filter(|_| is_well) {
                    passed.settle(about, since);
                }
            }
        }
        passed
    }

    fn settle(&mut self, about: About<'a>, at: Timestamp) {
        let until = self.until.entry(about).or_insert(at);
        *until = at.max(*until);
    }

    /// Whether nobody need look at a warning of that time any more.
    fn has(&self, event: &Object, at: Timestamp) -> bool {
        let (kind, namespace, name) = of(event);
        let about = (kind, namespace, name);
        let is_gone = self.kinds.contains(&kind) && !self.there.contains(&about);
        let is_covered = kind != "Node" || NOT_READY.contains(&text(event, "/reason"));
        let is_settled = is_covered && self.until.get(&about).is_some_and(|until| *until > at);
        let is_mended = |(later, well): &(Timestamp, &Object)| *later > at && mends(well, event);
        is_gone || is_settled || self.mends.get(&about).into_iter().flatten().any(is_mended)
    }
}

/// Whether one event of a Node says that it is over what another one warns of.
fn mends(well: &Object, warning: &Object) -> bool {
    let (mended, warned) = (text(well, "/reason"), text(warning, "/reason"));
    let is_pair = MENDS.iter().any(|(reason, ended)| *reason == mended && ended.contains(&warned));
    is_pair && certificate(well) == certificate(warning)
}

/// Which certificate an event is about, by the first that it names.
fn certificate(event: &Object) -> Option<&'static str> {
    let named = CERTIFICATES.iter().filter_map(|words| Some((text(event, "/message").find(words)?, *words)));
    named.min().map(|(_, words)| words)
}

/// What an event is about; whatever it says of a namespace, a Node has none.
fn of(event: &Object) -> About<'_> {
    let of = |field: &str| text(event, &format!("/involvedObject/{field}"));
    match of("kind") {
        "Node" => ("Node", "", of("name")),
        kind => (kind, of("namespace"), of("name")),
    }
}

fn finding(reason: &str, group: &Group<'_>) -> Finding {
    let Group { count, objects, latest } = group;
    let (times, things) = (counted(*count, "event"), counted(objects.len(), "object"));
    let what = format!("{times} in the last hour, about {things}");
    let remedy = format!("`kubectl get events -A --field-selector type=Warning,reason={reason}`");
    let last = latest.map_or_else(String::new, |(_, event)| joined(&about(event), text(event, "/message")));
    Finding::warning(format!("Warning {reason}").as_str(), what, remedy).because(last)
}

/// How often it happened: a series counts for itself.
fn times(event: &Object) -> usize {
    let number = |pointer: &str| usize::try_from(event.kept(pointer)?.as_i64()?).ok();
    number("/series/count").or_else(|| number("/count")).unwrap_or(1).max(1)
}

fn about(event: &Object) -> String {
    let of = |field: &str| text(event, &format!("/involvedObject/{field}"));
    match of("namespace") {
        "" => format!("{} {}", of("kind"), of("name")),
        namespace => format!("{} {namespace}/{}", of("kind"), of("name")),
    }
}
