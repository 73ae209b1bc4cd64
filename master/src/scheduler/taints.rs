//! Taints of nodes, and which of them a pod bears.

use serde_json::Value;

use super::read::text;

/// Something that keeps pods off a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

/// What a pod bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    key: String,
    value: String,
    effect: String,
    any_value: bool,
}

impl Toleration {
    /// Reads one of a pod.
    pub fn of(toleration: &Value) -> Self {
        let own = |field: &str| text(toleration, field).to_owned();
        let any_value = text(toleration, "operator") == "Exists";
        Self { key: own("key"), value: own("value"), effect: own("effect"), any_value }
    }

    /// Whether a pod that has it bears the taint.
    pub fn bears(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || self.key.is_empty() && self.any_value)
            && (self.any_value || self.value == taint.value)
    }
}

/// Whether one of them bears the taint.
pub fn are_borne(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.bears(taint))
}

/// The first taint that keeps a pod with these off a node.
pub fn unborne<'a>(tolerations: &[Toleration], taints: &'a [Taint]) -> Option<&'a Taint> {
    let keeps = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(keeps).find(|taint| !are_borne(tolerations, taint))
}
