//! Who may import whom inside the kubelet and the master.

use crate::arrows::{arrows, module};
use crate::{assert_tidy, broken, sources};

/// A room of a crate's `src`, what it may name of the others, and what must not stand in its code.
struct Room {
    name: &'static str,
    may: &'static [&'static str],
    never: &'static [&'static str],
}

const ASYNC: &[&str] = &["tokio", "async ", ".await", "bollard"];
const ENGINE: &[&str] = &["bollard"];
/// Time, randomness and ids come in as arguments; what a decision was is logged by who carries it out.
const PURE: &[&str] = &["tokio", "async ", ".await", "bollard", "tracing", "::now()", "rand::", "std::fs"];

/// The arrows of the kubelet, an arrow being a line `name -> may`. `api` is open to all.
const ROOMS: &[Room] = &[
    Room { name: "observed", may: &[], never: ASYNC },
    Room { name: "options", may: &[], never: ASYNC },
    Room { name: "metrics", may: &[], never: ASYNC },
    Room { name: "health", may: &[], never: ASYNC },
    Room { name: "disk", may: &[], never: ENGINE },
    Room { name: "report", may: &["observed"], never: ENGINE },
    Room { name: "desired", may: &["observed", "spec"], never: PURE },
    Room { name: "plan", may: &["observed", "desired"], never: PURE },
    Room {
        name: "spec",
        may: &["observed", "runtime::spec", "runtime::Image", "runtime::labels"],
        never: PURE,
    },
    Room { name: "sources", may: &["observed", "desired", "report", "disk"], never: ENGINE },
    Room { name: "cgroups", may: &["observed", "runtime::spec"], never: ENGINE },
    Room { name: "runtime", may: &["observed", "metrics"], never: &[] },
    Room { name: "observe", may: &["observed", "runtime", "metrics", "health"], never: ENGINE },
    Room { name: "probes", may: &["observed", "runtime", "report", "metrics"], never: ENGINE },
    Room { name: "volumes", may: &["observed", "report", "spec", "runtime::spec", "disk"], never: ENGINE },
    Room { name: "images", may: &["observed", "runtime", "report", "metrics"], never: ENGINE },
    Room { name: "network", may: &["observed", "runtime", "report", "disk"], never: &["bollard"] },
    Room {
        name: "worker",
        may: &[
            "observed", "observe", "desired", "plan", "spec", "runtime", "cgroups", "volumes", "images",
            "probes", "network", "report", "metrics", "disk",
        ],
        never: ENGINE,
    },
    Room {
        name: "node",
        may: &["observed", "spec", "runtime", "images", "report", "options", "metrics", "disk"],
        never: ENGINE,
    },
    Room { name: "stats", may: &["observed", "disk"], never: ENGINE },
    Room { name: "status", may: &["observed", "report", "metrics", "disk"], never: ENGINE },
    Room {
        name: "server",
        may: &["observed", "runtime", "stats", "status", "report", "metrics", "health"],
        never: ENGINE,
    },
    Room { name: "identity", may: &["options", "report", "disk"], never: ENGINE },
    Room {
        name: "cluster",
        may: &[
            "observed",
            "desired",
            "identity",
            "network::Member",
            "network::Members",
            "network::meet",
            "report",
            "disk",
        ],
        never: ENGINE,
    },
    // `kubelet check` reads, merges and refuses by the very code of `kubelet run`.
    Room {
        name: "cli",
        may: &["options", "wiring", "observed", "sources", "desired", "spec", "disk"],
        never: ENGINE,
    },
    Room {
        name: "wiring",
        may: &[
            "observed", "options", "metrics", "health", "report", "desired", "plan", "spec", "sources",
            "runtime", "observe", "probes", "cgroups", "volumes", "images", "network", "worker", "node",
            "stats", "status", "server", "identity", "cluster",
        ],
        never: ENGINE,
    },
];

/// The arrows of the master.
const MASTER_ROOMS: &[Room] = &[
    Room { name: "options", may: &["pki::Lives", "pod_ranges"], never: ASYNC },
    Room { name: "pod_ranges", may: &[], never: PURE },
    // Certificates are of this moment because whoever asks says which moment it is.
    Room { name: "pki", may: &[], never: &["tokio", "async ", ".await", "::now()", "tracing"] },
    Room { name: "kubeconfig", may: &["pki"], never: PURE },
    Room { name: "bootstrap", may: &["pki"], never: ENGINE },
    Room {
        name: "data_dir",
        may: &["bootstrap", "pki", "kubeconfig"],
        never: &["tokio", "async ", ".await", "::now()"],
    },
    Room { name: "server", may: &[], never: ENGINE },
    Room { name: "store", may: &["options"], never: ENGINE },
    Room { name: "owner", may: &[], never: ENGINE },
    Room { name: "backup", may: &["data_dir", "store"], never: &["bollard", "::now()"] },
    Room { name: "metrics", may: &[], never: ENGINE },
    Room { name: "quota", may: &[], never: PURE },
    // Plain clients: they know of the server only what it answers.
    Room {
        name: "controllers",
        may: &["approval", "options", "pki", "quota", "kubeconfig", "trust"],
        never: ENGINE,
    },
    // Another one. What decides is pure; the time comes in.
    Room { name: "scheduler", may: &["controllers"], never: ENGINE },
    Room { name: "trust", may: &["options"], never: PURE },
    Room { name: "approval", may: &["options", "pki"], never: PURE },
    // Another plain client; of the rest it knows where a master keeps what, which version it is of itself, and what it does
    // not act upon.
    Room {
        name: "check",
        may: &[
            "admission::ENFORCE",
            "backup::SOCKET",
            "controllers",
            "data_dir",
            "kubeconfig",
            "options::is_within",
            "pki",
            "pod_ranges",
            "quota",
            "server::VERSION",
            "store::DIRECTORY",
            "trust::CONDITION",
            "trust::SIGNED_BY",
        ],
        never: ENGINE,
    },
    Room { name: "admission", may: &["pki", "pod_ranges", "quota", "options", "trust"], never: ENGINE },
    Room {
        name: "cli",
        may: &["options", "pki", "data_dir", "backup", "check", "wiring", "controllers"],
        never: ENGINE,
    },
    Room { name: "namespaces", may: &[], never: ENGINE },
    // It writes as any client does.
    Room { name: "kubernetes", may: &["controllers", "options"], never: ENGINE },
    Room { name: "apiservices", may: &["controllers"], never: ENGINE },
    Room { name: "nodes", may: &["options", "pki"], never: ENGINE },
    Room { name: "usage", may: &["nodes", "server::VERSION"], never: ENGINE },
    Room { name: "api", may: &["server", "admission", "namespaces", "options"], never: ENGINE },
    Room {
        name: "wiring",
        may: &[
            "admission",
            "api",
            "apiservices",
            "backup",
            "bootstrap",
            "controllers",
            "data_dir",
            "kubeconfig",
            "kubernetes",
            "metrics",
            "nodes",
            "options",
            "owner",
            "pki",
            "scheduler",
            "server",
            "store",
            "usage",
        ],
        never: ENGINE,
    },
];

#[test]
fn rooms_import_only_what_they_may() {
    let mut faults = Vec::new();
    for (src, rooms) in [("kubelet/src", ROOMS), ("master/src", MASTER_ROOMS)] {
        for source in sources(&[src]) {
            let under_src = source.path.trim_start_matches(src).trim_start_matches('/');
            if let Some(room) = module(under_src).first() {
                faults.extend(check_file(rooms, room, &source.path, under_src, &source.text));
            }
        }
    }
    assert_tidy(&faults);
}

fn check_file(rooms: &[Room], room: &str, path: &str, under_src: &str, text: &str) -> Vec<String> {
    let Some(row) = rooms.iter().find(|row| row.name == room) else {
        let rule = format!(
            "`{room}` is no room: give it a row in tests/tests/tidy/rooms.rs that says what it may import"
        );
        return vec![broken(path, 1, &rule)];
    };
    let mut faults = Vec::new();
    for arrow in arrows(under_src, text) {
        let to = arrow.to.split("::").next().unwrap_or("");
        let is_room = rooms.iter().any(|row| row.name == to);
        let allowed = |may: &&str| arrow.to == **may || arrow.to.starts_with(&format!("{may}::"));
        if is_room && to != room && !row.may.iter().any(allowed) {
            let rule = format!("`{room}` must not import `{}`; it may import {:?}", arrow.to, row.may);
            faults.push(broken(path, arrow.line, &rule));
        }
    }
    // Tests of a pure room may read files or wait; the room itself may not.
    let is_test = under_src.ends_with("/tests.rs") || under_src.contains("/tests/");
    for (number, line) in text.lines().enumerate().filter(|_| !is_test) {
        let code = line.split("//").next().unwrap_or("");
        for word in row.never.iter().filter(|word| code.contains(**word)) {
            let rule = format!("`{}` has no place in the room `{room}`", word.trim());
            faults.push(broken(path, number + 1, &rule));
        }
    }
    faults
}

#[test]
fn a_forbidden_arrow_is_found() {
    let check = |room: &str, text: &str| check_file(ROOMS, room, "f.rs", &format!("{room}/f.rs"), text).len();
    assert_eq!(check("plan", "use crate::observed::Pod;\nuse crate::desired::DesiredPod;"), 0);
    assert_eq!(check("plan", "use crate::worker::Worker;"), 1);
    assert_eq!(check("plan", "let now = Timestamp::now();"), 1);
    assert_eq!(check("spec", "use crate::runtime::spec::Identity;"), 0);
    assert_eq!(check("spec", "use crate::runtime::{Runtime, spec::Identity};"), 1);
    assert_eq!(check("server", "use crate::{plan, worker};"), 2);
    assert_eq!(check("attic", "fn main() {}"), 1);
}
