//! Garbage collection finalizers of a delete. `DeleteOptions` determine them, otherwise the existing finalizers,
//! otherwise the default of the kind.

use serde_json::{Map, Value};

use super::object_meta;
use crate::resource::GarbageCollection;

/// Finalizer that keeps an owner until its dependents are deleted.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer that keeps an owner until its dependents are orphaned.
const ORPHAN: &str = "orphan";
/// Values of `propagationPolicy`.
pub(super) const POLICIES: &[&str] = &["Foreground", "Background", "Orphan"];

/// The propagation that the client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Propagation {
    /// The client requests none.
    #[default]
    Unset,
    /// The deprecated `orphanDependents`.
    OrphanDependents(bool),
    /// `propagationPolicy: Foreground`.
    Foreground,
    /// `propagationPolicy: Background`.
    Background,
    /// `propagationPolicy: Orphan`.
    Orphan,
}

impl Propagation {
    /// Parses a policy of `DeleteOptions`. Returns `None` if it is not one of [`POLICIES`].
    pub fn named(policy: &str) -> Option<Self> {
        match policy {
            "Foreground" => Some(Self::Foreground),
            "Background" => Some(Self::Background),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }

    /// True if a pending delete returns 202, because the client requested a cascading deletion.
    pub fn is_accepted(self) -> bool {
        matches!(self, Self::Foreground | Self::OrphanDependents(false))
    }

    /// The warning for a client that did not specify a policy, if dependents are orphaned.
    pub fn warning(self, policy: GarbageCollection) -> Option<&'static str> {
        match (self, policy) {
            (Self::Unset, GarbageCollection::OrphanDependents { warning }) => warning,
            _ => None,
        }
    }

    /// Sets the finalizers of an object whose kind has this default policy.
    pub fn apply(self, object: &mut Map<String, Value>, policy: GarbageCollection) {
        let finalizers = object_meta::finalizers(object);
        let of_collector = |finalizer: &str| [FOREGROUND, ORPHAN].contains(&finalizer);
        let before = finalizers.iter().copied().find(|finalizer| of_collector(finalizer));
        let wanted = match (policy, self) {
            (GarbageCollection::Unsupported, _) | (_, Self::Background | Self::OrphanDependents(false)) => {
                None
            }
            (_, Self::Foreground) => Some(FOREGROUND),
            (_, Self::Orphan | Self::OrphanDependents(true)) => Some(ORPHAN),
            (policy, Self::Unset) => match (before, policy) {
                (Some(FOREGROUND), _) => Some(FOREGROUND),
                (Some(_), _) | (None, GarbageCollection::OrphanDependents { .. }) => Some(ORPHAN),
                (None, _) => None,
            },
        };
        if before == wanted {
            return;
        }
        let kept = finalizers.into_iter().filter(|finalizer| !of_collector(finalizer));
        let finalizers: Vec<Value> = kept.chain(wanted).map(Value::from).collect();
        let metadata = object_meta::metadata(object);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use Propagation::{Background, Foreground, Orphan, OrphanDependents, Unset};

    const DELETE: GarbageCollection = GarbageCollection::DeleteDependents;
    const KEEP: GarbageCollection = GarbageCollection::OrphanDependents { warning: Some("they stay") };
    const UNSUPPORTED: GarbageCollection = GarbageCollection::Unsupported;

    /// Follows `deletionFinalizersForGarbageCollection` of the stock registry.
    #[test]
    fn propagation_policy_order_is_options_finalizers_default() {
        for (policy, options, before, after) in [
            (DELETE, Unset, json!(["a"]), json!(["a"])),
            (DELETE, Unset, json!(["a", "orphan"]), json!(["a", "orphan"])),
            (DELETE, Unset, json!(["foregroundDeletion"]), json!(["foregroundDeletion"])),
            (DELETE, Foreground, json!([]), json!(["foregroundDeletion"])),
            (DELETE, Foreground, json!(["orphan", "a"]), json!(["a", "foregroundDeletion"])),
            (DELETE, Orphan, json!(["foregroundDeletion"]), json!(["orphan"])),
            (DELETE, Background, json!(["foregroundDeletion", "a"]), json!(["a"])),
            (DELETE, OrphanDependents(false), json!(["foregroundDeletion"]), json!([])),
            (DELETE, OrphanDependents(true), json!([]), json!(["orphan"])),
            (KEEP, Unset, json!([]), json!(["orphan"])),
            (KEEP, Unset, json!(["foregroundDeletion"]), json!(["foregroundDeletion"])),
            (KEEP, Background, json!(["orphan"]), json!([])),
            (KEEP, OrphanDependents(false), json!([]), json!([])),
            (KEEP, Foreground, json!([]), json!(["foregroundDeletion"])),
            (UNSUPPORTED, Foreground, json!([]), json!([])),
            (UNSUPPORTED, Orphan, json!(["a"]), json!(["a"])),
        ] {
            let case = format!("{policy:?} {options:?} {before}");
            let object = json!({"metadata": {"finalizers": before}});
            let mut object = object.as_object().unwrap().clone();
            options.apply(&mut object, policy);
            assert_eq!(json!(object_meta::finalizers(&object)), after, "{case}");
        }
    }

    #[test]
    fn explicit_propagation_policy_gives_no_warning() {
        assert_eq!(Unset.warning(KEEP), Some("they stay"));
        assert_eq!(Unset.warning(DELETE), None);
        for chosen in [Foreground, Background, Orphan, OrphanDependents(true), OrphanDependents(false)] {
            assert_eq!(chosen.warning(KEEP), None, "{chosen:?}");
        }
    }
}
