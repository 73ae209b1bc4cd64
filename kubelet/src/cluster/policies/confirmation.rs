//! Confirms lists of policies and their peers: checks whether the API server that sent them knows this node.

use std::collections::BTreeSet;
use std::sync::Arc;

use client::backoff::random_share;
use jiff::Timestamp;

use super::super::NODES;
use super::snapshot::ObjectName;
use super::{Apis, Shared};
use crate::identity::{EventReporter, backoff_delay};

/// Most names in an event. The text of an event has at most 1024 bytes.
const MAX_NAMES: usize = 5;

/// Confirms each list, and reports policies that a restored or replaced API server lacks. An API server that does not
/// know this node is reported by the pod source.
pub(super) async fn confirm(shared: Arc<Shared>, mut apis: Apis, node: String, mut reporter: EventReporter) {
    let mut lists = shared.lists.subscribe();
    let mut failures = 0_u32;
    loop {
        let received = *lists.borrow_and_update();
        if !shared.lock().is_unconfirmed() {
            failures = 0;
            if lists.changed().await.is_err() {
                return;
            }
            continue;
        }
        let api = apis.borrow_and_update().clone();
        let Some(api) = api else {
            if apis.changed().await.is_err() {
                return;
            }
            continue;
        };
        let found = api.get(&format!("{NODES}/{node}")).await;
        let uid = found.as_ref().ok().and_then(|node| node["metadata"]["uid"].as_str());
        let Some(uid) = uid else {
            let delay = backoff_delay(failures, random_share());
            failures = failures.saturating_add(1);
            tokio::select! {
                changed = apis.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(delay) => {}
            }
            continue;
        };
        let missing = shared.apply(|informer| {
            // The answer does not confirm a newer list.
            if informer.lists_received() == received { informer.confirm(uid) } else { BTreeSet::new() }
        });
        if !missing.is_empty() {
            reporter.warn("NetworkPoliciesMissing", missing_text(&missing), Timestamp::now());
        }
    }
}

fn missing_text(missing: &BTreeSet<ObjectName>) -> String {
    let names = missing.iter().take(MAX_NAMES).map(|(namespace, name)| format!("{namespace}/{name}"));
    let names: Vec<String> = names.collect();
    let more = match missing.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!(
        "the API server was restored or replaced, or the Node was deleted: it lacks NetworkPolicies that are known here: \
         {}{more}. They stay in force. Create them again; to end one, create and delete it",
        names.join(", ")
    )
}
