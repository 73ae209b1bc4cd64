//! Adoption and release of objects by selector and owner reference. Pure.

use serde_json::{Value, json};

use client::Kind;

use crate::objects::{LabelSelector, OwnerReference, StringMap};

/// An object that owns others by a label selector.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub uid: &'a str,
    pub is_terminating: bool,
    pub selector: &'a LabelSelector,
}

/// An object that may be owned.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The owner that manages the object.
    pub controller: Option<&'a OwnerReference>,
    pub labels: &'a StringMap,
    pub is_terminating: bool,
}

/// Whether an object belongs to an owner, and what must change first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The object is owned and selected.
    Keep,
    /// The object has no owner and is selected. Its owner reference must be added.
    Adopt,
    /// The object is owned and no longer selected. Its owner reference must be removed.
    Release,
    /// The object belongs to another owner or to none.
    Ignore,
}

/// Decides on one object. An owner that is being deleted changes nothing.
pub fn claim(owner: Owner<'_>, object: Candidate<'_>) -> Claim {
    let is_selected = owner.selector.matches(object.labels);
    match object.controller {
        Some(controller) if *controller.uid != *owner.uid => Claim::Ignore,
        Some(_) if is_selected => Claim::Keep,
        Some(_) if owner.is_terminating => Claim::Ignore,
        Some(_) => Claim::Release,
        None if owner.is_terminating || object.is_terminating || !is_selected => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// Returns the owner reference of a controller. It blocks the controller's foreground deletion.
pub fn controller_reference(kind: &Kind, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the strategic merge patch that adds an owner reference to the object with the given UID.
pub fn adoption(uid: &str, reference: &Value) -> Value {
    json!({"metadata": {"uid": uid, "ownerReferences": [reference]}})
}

/// Returns the strategic merge patch that removes the reference to an owner from the object with the given UID.
pub fn release(uid: &str, owner: &str) -> Value {
    json!({"metadata": {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_claimed_by_selector_and_owner_reference() {
        use Claim::{Adopt, Ignore, Keep, Release};
        let selector = LabelSelector {
            match_labels: [("app", "web")].into_iter().collect(),
            ..LabelSelector::default()
        };
        let labels = |app: &str| -> StringMap { [("app", app)].into_iter().collect() };
        let of =
            |uid: &str| OwnerReference { uid: uid.into(), controller: true, ..OwnerReference::default() };
        // controller, app, object terminates, owner terminates
        for (controller, app, is_terminating, is_ending, expected) in [
            (Some("1"), "web", false, false, Keep),
            (Some("1"), "web", true, true, Keep),
            (Some("1"), "db", false, false, Release),
            (Some("1"), "db", false, true, Ignore),
            (Some("2"), "web", false, false, Ignore),
            (None, "web", false, false, Adopt),
            (None, "web", true, false, Ignore),
            (None, "web", false, true, Ignore),
            (None, "db", false, false, Ignore),
        ] {
            let (controller, labels) = (controller.map(of), labels(app));
            let owner = Owner { uid: "1", is_terminating: is_ending, selector: &selector };
            let object = Candidate { controller: controller.as_ref(), labels: &labels, is_terminating };
            assert_eq!(claim(owner, object), expected, "{owner:?} {object:?}");
        }
    }
}
