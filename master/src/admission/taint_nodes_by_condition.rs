//! The TaintNodesByCondition plugin: new Nodes get the not-ready taint.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, list_mut, text};

/// The taint. The node lifecycle controller removes it.
const TAINT: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The stock plugin `TaintNodesByCondition`.
#[derive(Clone, Copy, Debug)]
pub struct TaintNodesByCondition;

fn taint(node: &mut Json) {
    let Some(taints) = field(node, "spec").and_then(|spec| list_mut(spec, "taints")) else { return };
    let is_ours = |taint: &Value| {
        taint.as_object().is_some_and(|taint| text(taint, "key") == TAINT && text(taint, "effect") == EFFECT)
    };
    if !taints.iter().any(is_ours) {
        taints.push(json!({"key": TAINT, "effect": EFFECT}));
    }
}

#[async_trait]
impl Admission for TaintNodesByCondition {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if attempt.is_of("nodes") && attempt.operation == Operation::Create && attempt.subresource.is_none() {
            taint(&mut attempt.object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the taints of a new Node.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn new_node_gets_the_not_ready_taint() {
        let ours = json!({"key": TAINT, "effect": EFFECT});
        let mine = json!({"key": "mine", "effect": EFFECT});
        let execute = json!({"key": TAINT, "effect": "NoExecute"});
        for (own, expected) in [
            (json!({}), json!([ours])),
            (json!({"spec": null}), json!([ours])),
            (json!({"spec": {"taints": [mine]}}), json!([mine, ours])),
            (json!({"spec": {"taints": [ours, mine]}}), json!([ours, mine])),
            (json!({"spec": {"taints": [execute]}}), json!([execute, ours])),
        ] {
            let mut node = own.as_object().unwrap().clone();
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], expected, "{own}");
        }
    }
}
