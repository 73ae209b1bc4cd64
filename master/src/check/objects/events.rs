//! Warnings of the last hour, by reason: how often, of how many objects, and the latest one. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::World;
use super::field::{joined, text};
use crate::check::finding::{Finding, counted};
use crate::controllers::{Object, happened};

/// How far back events are told of; a server keeps them about as long.
const LATELY: SignedDuration = SignedDuration::from_hours(1);

/// Events of one reason.
#[derive(Default)]
struct Group<'a> {
    count: usize,
    objects: BTreeSet<String>,
    latest: Option<(Timestamp, &'a Object)>,
}

/// What warnings there were, the most frequent first.
pub fn findings(world: &World) -> Vec<Finding> {
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for event in world.of("events").iter().filter(|event| text(event, "/type") == "Warning") {
        let Some(at) = happened(event).filter(|at| world.now.duration_since(*at) <= LATELY) else { continue };
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
