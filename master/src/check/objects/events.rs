//! Summarizes recent Warning events by reason.
//!
//! A warning is resolved by a later success of its object. It is also resolved when the object becomes ready or is
//! deleted, or if the warning is not repeated. Events of a Node are about unrelated things, so only the matching
//! event resolves a warning. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};

use super::World;
use super::kinds::{condition, joined};
use crate::check::finding::{Finding, counted};
use crate::objects::{Condition, Event, List, ObjectMeta};

/// How long after its last occurrence a repeated warning counts as resolved. The longest backoff of stock
/// controllers is 1,000 s. This project's kubelet repeats warnings about its cluster every ten minutes.
const REPEATED_WITHIN: SignedDuration = SignedDuration::from_mins(20);
/// How long a warning that is never repeated counts. API servers keep events about as long.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// Reasons of warnings that are not repeated.
const GIVEN_ONCE: &[&str] = &[MIRROR, "PodNetworkFailed", "PodsMissing"];
/// The reason for a static pod without a mirror pod. The Pod does not exist in the API, but that does not resolve
/// the warning.
const MIRROR: &str = "FailedMirrorPod";
/// Normal events that do not mean success.
const TRIES: &[&str] = &["BackOff", "Killing", "Pulling"];

/// Events by which a kubelet reports recovery, and the warnings that they resolve. Warnings about the cluster are
/// repeated every ten minutes. A failure of the pod network is reported once, and so is its end.
const MENDS: &[(&str, &[&str])] = &[
    ("CertificateInUse", &["CertificateIssuerUnknown", "CertificateDenied", "CertificateRequestFailed"]),
    ("ClusterChanged", &["ClusterChanged", "ClusterInfoUnconfirmed", "ClusterInfoFailed"]),
    ("ClusterAccessRestored", &["ClusterAccessInvalid"]),
    (
        "APIServerReachable",
        &["NodeWatchFailed", "LeaseNotRenewed", "NodeNotRegistered", "PodStatusesNotSent"],
    ),
    ("NodeNameFree", &["NodeNameInUse"]),
    ("NodeReady", &["NodeNotReady"]),
    ("NodeRegistered", &["NodeUnknownToAPIServer", "NodeNotRegistered"]),
    ("NodesListed", &["NodesNotListed"]),
    ("PodNetworkRecovered", &["PodNetworkFailed"]),
    ("PodsFound", &["PodsMissing"]),
    ("PodsListed", &["PodsNotListed"]),
];
/// Warnings that a ready Node resolves.
const NOT_READY: &[&str] = &["NodeNotReady", "NodeNotRegistered"];
/// The certificates of a node. Events about them have the same reasons.
const CERTIFICATES: &[&str] = &["client certificate", "serving certificate"];

/// Reasons that kubelets before version 0.2 use, with their present names. This table can be removed in version
/// 0.3, which no longer supports such kubelets.
const FORMER_REASONS: &[(&str, &str)] = &[
    ("CertificateForeign", "CertificateIssuerUnknown"),
    ("CertificateRefused", "CertificateDenied"),
    ("CertificateTrouble", "CertificateRequestFailed"),
    ("ClusterInfoDoubted", "ClusterInfoUnconfirmed"),
    ("ClusterInfoTrouble", "ClusterInfoFailed"),
    ("ClusterTrouble", "ClusterAccessInvalid"),
    ("ClusterTroubleOver", "ClusterAccessRestored"),
    ("ClusterUnheard", "NodeWatchFailed"),
    ("MasterBack", "APIServerReachable"),
    ("MasterDoubted", "NodeUnknownToAPIServer"),
    ("NodesNotShown", "NodesNotListed"),
    ("NodesShown", "NodesListed"),
    ("PodNetworkTrouble", "PodNetworkFailed"),
    ("PodNetworkTroubleOver", "PodNetworkRecovered"),
    ("PodsClaimed", "PodsFound"),
    ("PodsNotTold", "PodStatusesNotSent"),
    ("PodsUnclaimed", "PodsMissing"),
];

/// Events of one reason.
#[derive(Default)]
struct Group<'a> {
    count: usize,
    objects: BTreeSet<String>,
    latest: Option<(Timestamp, &'a Event)>,
}

/// Findings by reason, the most frequent first.
pub fn findings(world: &World) -> Vec<Finding> {
    let passed = Passed::of(world);
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for event in world.lists.events.iter().filter(|event| &*event.r#type == "Warning") {
        let counts_for = if GIVEN_ONCE.contains(&reason(event)) { KEPT } else { REPEATED_WITHIN };
        let is_recent = |at: &Timestamp| world.now.duration_since(*at) <= counts_for;
        let Some(at) = event.last_occurrence().filter(is_recent) else { continue };
        if passed.has(event, at) {
            continue;
        }
        let group = groups.entry(reason(event)).or_default();
        group.count = group.count.saturating_add(event.occurrences());
        group.objects.insert(about(event));
        if group.latest.is_none_or(|(before, _)| before <= at) {
            group.latest = Some((at, event));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    groups.into_iter().map(|(reason, group)| finding(reason, &group)).collect()
}

/// The involved object: kind, namespace and name.
type About<'a> = (&'a str, &'a str, &'a str);

/// Which warnings are resolved.
#[derive(Default)]
struct Passed<'a> {
    /// Time up to which all warnings of an object are resolved. For a Node, only the warnings that readiness
    /// resolves.
    until: HashMap<About<'a>, Timestamp>,
    /// The recovery events of each Node.
    mends: HashMap<About<'a>, Vec<(Timestamp, &'a Event)>>,
    /// Kinds of which all objects were read.
    kinds: Vec<&'static str>,
    there: BTreeSet<About<'a>>,
}

impl<'a> Passed<'a> {
    fn of(world: &'a World) -> Self {
        let mut passed = Self::default();
        let is_well = |event: &&Event| &*event.r#type == "Normal" && !TRIES.contains(&reason(event));
        for event in world.lists.events.iter().filter(is_well) {
            let Some(at) = event.last_occurrence() else { continue };
            match of(event) {
                about @ ("Node", ..) => passed.mends.entry(about).or_default().push((at, event)),
                about => passed.settle(about, at),
            }
        }
        if world.is_complete("pods") {
            passed.kinds.push("Pod");
            for pod in &world.lists.pods {
                let has_succeeded = &*pod.status.phase == "Succeeded";
                passed.add("Pod", &pod.metadata, &pod.status.conditions, has_succeeded);
            }
        }
        if world.is_complete("nodes") {
            passed.kinds.push("Node");
            for node in &world.lists.nodes {
                passed.add("Node", &node.metadata, &node.status.conditions, false);
            }
        }
        passed
    }

    /// Adds an existing object. Its warnings are resolved up to the time when it became ready or succeeded.
    fn add<Annotations>(
        &mut self,
        kind: &'static str,
        object: &'a ObjectMeta<Annotations>,
        conditions: &List<Condition>,
        has_succeeded: bool,
    ) {
        let about = (kind, &*object.namespace, &*object.name);
        self.there.insert(about);
        let ready = condition(conditions, "Ready");
        if let Some(since) = ready.last_transition_time.filter(|_| ready.is_true() || has_succeeded) {
            self.settle(about, since);
        }
    }

    fn settle(&mut self, about: About<'a>, at: Timestamp) {
        let until = self.until.entry(about).or_insert(at);
        *until = at.max(*until);
    }

    /// True if the warning is resolved.
    fn has(&self, event: &Event, at: Timestamp) -> bool {
        let (kind, namespace, name) = of(event);
        let about = (kind, namespace, name);
        let is_known = self.kinds.contains(&kind) && reason(event) != MIRROR;
        let is_gone = is_known && !self.there.contains(&about);
        let is_covered = kind != "Node" || NOT_READY.contains(&reason(event));
        let is_settled = is_covered && self.until.get(&about).is_some_and(|until| *until > at);
        let is_mended = |(later, well): &(Timestamp, &Event)| *later > at && mends(well, event);
        is_gone || is_settled || self.mends.get(&about).into_iter().flatten().any(is_mended)
    }
}

/// The reason of an event, under its present name.
fn reason(event: &Event) -> &str {
    let reason = &*event.reason;
    FORMER_REASONS.iter().find(|(former, _)| *former == reason).map_or(reason, |(_, now)| now)
}

/// True if the recovery event resolves the warning.
fn mends(well: &Event, warning: &Event) -> bool {
    let (mended, warned) = (reason(well), reason(warning));
    let is_pair = MENDS.iter().any(|(reason, ended)| *reason == mended && ended.contains(&warned));
    is_pair && certificate(well) == certificate(warning)
}

/// The certificate that an event names first.
fn certificate(event: &Event) -> Option<&'static str> {
    let named = CERTIFICATES.iter().filter_map(|words| Some((event.message.find(words)?, *words)));
    named.min().map(|(_, words)| words)
}

/// The involved object. A Node has no namespace, even if the event names one.
fn of(event: &Event) -> About<'_> {
    let involved = &event.involved_object;
    match &*involved.kind {
        "Node" => ("Node", "", &*involved.name),
        kind => (kind, &*involved.namespace, &*involved.name),
    }
}

fn finding(reason: &str, group: &Group<'_>) -> Finding {
    let Group { count, objects, latest } = group;
    let (times, things) = (counted(*count, "recent event"), counted(objects.len(), "object"));
    let what = format!("{times} about {things}");
    let remedy = format!("`kubectl get events -A --field-selector type=Warning,reason={reason}`");
    let last = latest.map_or_else(String::new, |(_, event)| joined(&about(event), &event.message));
    Finding::warning(format!("Warning {reason}").as_str(), what, remedy).because(last)
}

fn about(event: &Event) -> String {
    let involved = &event.involved_object;
    match &*involved.namespace {
        "" => format!("{} {}", involved.kind, involved.name),
        namespace => format!("{} {namespace}/{}", involved.kind, involved.name),
    }
}
