//! The permission table of `docs/access.md`.

use std::path::Path;

use crate::master_matrix::actors::{Actor, Who};
use crate::master_matrix::questions::Question;

/// A row of it.
#[derive(Debug)]
pub struct Right {
    who: Who,
    /// Permitted verbs.
    pub verbs: Vec<String>,
    /// Resources: `pods/status`, `leases.coordination.k8s.io`.
    pub kinds: Vec<String>,
    /// Whether the row is limited to the node's own objects.
    is_own: bool,
}

impl Right {
    /// Whether this row permits the request.
    pub fn covers(&self, actor: &Actor, question: &Question) -> bool {
        let is_node = actor.is.is_some_and(|who| matches!(who, Who::Node(_)));
        let is_for = match self.who {
            Who::Node(_) => is_node,
            Who::Known => is_node || actor.is == Some(Who::Known),
            Who::Nobody => actor.is == Some(Who::Nobody),
        };
        let is_of = !self.is_own || actor.is == question.owner.map(Who::Node);
        is_for && is_of && self.verbs.contains(&question.verb) && self.kinds.contains(&question.resource)
    }
}

/// Every row.
pub fn rights() -> Vec<Right> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/access.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rights: Vec<Right> = page.lines().filter_map(right).collect();
    assert!(rights.len() > 10, "the table is not there: {rights:?}");
    rights
}

fn right(line: &str) -> Option<Right> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [who, verbs, kinds, which] = cells[..] else { return None };
    let who = match who {
        "a node" => Who::Node(""),
        "any authenticated user" => Who::Known,
        "anonymous" => Who::Nobody,
        _ => return None,
    };
    let is_own = match which.split(':').next() {
        Some("its") => true,
        Some("any") => false,
        _ => panic!("{which:?} is neither `its` nor `any`"),
    };
    let words = |cell: &str| cell.split(", ").map(|word| word.trim_matches('`').to_owned()).collect();
    Some(Right { who, verbs: words(verbs), kinds: words(kinds), is_own })
}
