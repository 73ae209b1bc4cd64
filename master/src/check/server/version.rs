//! Which version the server is, and whether it fits this command and the nodes. Pure.

use serde_json::Value;

use super::super::finding::{Finding, Subject};
use super::Answer;
use crate::controllers::Object;

/// How many minor versions a kubelet may be older than its server, as the version skew policy of Kubernetes says.
const KUBELET_BEHIND: u32 = 3;
/// What our own version carries behind that of Kubernetes.
const OWN: &str = "+coracle-";

/// What a server says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `v1.36.0+coracle-0.1.0`.
    pub text: String,
}

impl Version {
    /// Reads the answer of `/version`.
    ///
    /// # Errors
    /// The finding that it is none.
    pub fn of(answer: &Answer) -> Result<Self, Box<Finding>> {
        let document: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        match document.get("gitVersion").and_then(Value::as_str) {
            Some(text) if minor(text).is_some() => Ok(Self { text: text.to_owned() }),
            _ => {
                let what = "what answers is no Kubernetes API server";
                let remedy = "correct the address in the kubeconfig (`server:`)";
                let said = format!("/version answers {} and no version", answer.code);
                Err(Box::new(Finding::problem("master", what, remedy).because(said)))
            }
        }
    }

    /// Whether it is a master of this project.
    pub fn is_own(&self) -> bool {
        self.text.contains(OWN)
    }

    /// Whether that server and this command are of one version.
    pub fn findings(&self, own: &str) -> Vec<Finding> {
        if !self.is_own() || self.text == own {
            return Vec::new();
        }
        let what = format!("the master is {} and this command {own}", self.text);
        let remedy = "after an update restart the master, and use the `master` that it runs";
        vec![Finding::warning("version", what, remedy)]
    }

    /// What does not fit between the server and a node.
    pub fn of_node(&self, node: &Object, kubelet: &str) -> Option<Finding> {
        let (server, node_minor) = (minor(&self.text)?, minor(kubelet)?);
        let subject = Subject::of("Node", node);
        let what = format!("its kubelet is {kubelet} and the server {}", self.text);
        if node_minor > server {
            let remedy = "update the master first, nodes after it";
            return Some(
                Finding::problem(subject, what, remedy)
                    .because("a kubelet must not be newer than its server"),
            );
        }
        (server - node_minor > KUBELET_BEHIND).then(|| {
            let cause = format!("a kubelet may be {KUBELET_BEHIND} minor versions older at the most");
            Finding::problem(subject, what, "update the node").because(cause)
        })
    }
}

/// The minor version of `v1.36.0+more`.
fn minor(text: &str) -> Option<u32> {
    let rest = text.strip_prefix('v')?.strip_prefix("1.")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
