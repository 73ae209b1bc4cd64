//! What `/livez` and `/readyz` say, each check with its cure. Pure.

use super::super::finding::Finding;
use super::Answer;

/// What to do when a check of that name fails; names are those of ours and of the stock server.
const CURES: &[(&str, &str)] = &[
    (
        "etcd",
        "the store does not answer: with `--storage etcd` look whether every member of --etcd-servers runs and has room; with \
         the embedded store look at room and health of the disk of --data-dir, and at the master's log",
    ),
    (
        "store-file",
        "the file of the store was removed or replaced under the running master, and what is written is lost when it ends: run \
         `master backup FILE` now, then stop the master, `master restore --replace FILE` and start it",
    ),
    (
        "etcd-quota",
        "etcd has reached its --quota-backend-bytes and takes no writes: free space with `etcdctl defrag`, then `etcdctl alarm \
         disarm`, or start it with a larger quota",
    ),
    (
        "etcd-readiness",
        "the store does not answer: look whether every member of --etcd-servers runs and has room",
    ),
    ("shutdown", "the master is stopping: wait until it has ended, then start it again"),
    ("ping", "the master is not itself: restart it, and keep its log"),
];
const OTHER: &str = "the master's log has a line with the name of the check and the reason";

/// What is wrong, check by check.
pub fn findings(live: &Answer, ready: &Answer) -> Vec<Finding> {
    let mut found = Vec::new();
    for (answer, endpoint) in [(live, "/livez"), (ready, "/readyz")] {
        for (check, why) in failed(&answer.body) {
            let what = format!("the check {check} of {endpoint} fails");
            // What does not live is not ready either, and is told once.
            let before =
                found.iter().any(|known: &Finding| known.what.starts_with(&format!("the check {check} ")));
            if !before {
                found.push(Finding::problem("master", what, cure(check)).because(why));
            }
        }
        if found.is_empty() && answer.code != 200 {
            let what = format!("{endpoint} answers {}", answer.code);
            let first = answer.body.lines().next().unwrap_or_default();
            found.push(
                Finding::problem("master", what, "look into its log, and whether it is a master at all")
                    .because(first),
            );
        }
    }
    found
}

fn cure(check: &str) -> &'static str {
    CURES.iter().find(|(name, _)| *name == check).map_or(OTHER, |(_, cure)| cure)
}

/// `[-]etcd failed: reason withheld`: the name, and the reason where it is told.
fn failed(body: &str) -> impl Iterator<Item = (&str, &str)> {
    body.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("[-]")?.split_once(' ').unwrap_or((&line[3..], ""));
        let why = rest.strip_prefix("failed: ").unwrap_or(rest);
        Some((name, if why == "reason withheld" { "" } else { why }))
    })
}
