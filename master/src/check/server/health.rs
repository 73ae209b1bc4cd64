//! Evaluates `/livez` and `/readyz`, with a remedy per failed check. Pure.

use super::super::finding::Finding;
use super::Answer;

/// Remedies by the name of a health check. They cover checks of this project and of the stock API server.
const CURES: &[(&str, &str)] = &[
    (
        "etcd",
        "the store does not respond: with `--storage etcd` check that every member of --etcd-servers runs and has free space; with \
         the embedded store check the free space and the health of the disk of --data-dir, and the master's log",
    ),
    (
        "store-file",
        "the store file was removed or replaced under the running master, and new data is lost when it stops: run \
         `master backup FILE` now, then stop the master, `master restore --replace FILE` and start it",
    ),
    (
        "etcd-quota",
        "etcd has reached its --quota-backend-bytes and rejects writes: free space with `etcdctl defrag`, then `etcdctl alarm \
         disarm`, or start it with a larger quota",
    ),
    (
        "etcd-readiness",
        "the store does not respond: check that every member of --etcd-servers runs and has free space",
    ),
    ("shutdown", "the master is stopping: wait until it has stopped, then start it again"),
    ("ping", "the master does not work: restart it, and keep its log"),
];
const OTHER: &str = "see the message with the name of the check in the master's log";

/// Returns one finding per failed check.
pub fn findings(live: &Answer, ready: &Answer) -> Vec<Finding> {
    let mut found = Vec::new();
    for (answer, endpoint) in [(live, "/livez"), (ready, "/readyz")] {
        for (check, why) in failed(&answer.body) {
            let what = format!("the check {check} of {endpoint} fails");
            // A check that fails in both endpoints is reported once.
            let before =
                found.iter().any(|known: &Finding| known.what.starts_with(&format!("the check {check} ")));
            if !before {
                found.push(Finding::problem("master", what, cure(check)).because(why));
            }
        }
        if found.is_empty() && answer.code != 200 {
            let what = format!("{endpoint} returns {}", answer.code);
            let first = answer.body.lines().next().unwrap_or_default();
            found.push(
                Finding::problem("master", what, "see its log, and check that it is a master at all")
                    .because(first),
            );
        }
    }
    found
}

fn cure(check: &str) -> &'static str {
    CURES.iter().find(|(name, _)| *name == check).map_or(OTHER, |(_, cure)| cure)
}

/// Parses lines such as `[-]etcd failed: reason withheld` into name and reason.
fn failed(body: &str) -> impl Iterator<Item = (&str, &str)> {
    body.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("[-]")?.split_once(' ').unwrap_or((&line[3..], ""));
        let why = rest.strip_prefix("failed: ").unwrap_or(rest);
        Some((name, if why == "reason withheld" { "" } else { why }))
    })
}
