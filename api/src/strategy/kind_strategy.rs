//! The strategy of a built-in kind as a table of functions.

use super::causes::Causes;
use super::dotted::text;
use super::field_value::FieldValue;
use super::{Cause, DefaultsTooLarge, Json, Part, Strategy};
use crate::schema;

/// The strategy of a built-in kind. Functions that a kind does not need come from [`NO_OP`].
pub(super) struct KindStrategy {
    /// Sets the defaults of fields that the client left out.
    pub default: fn(&mut Json),
    /// Resets fields that the client cannot set.
    pub prepare: fn(&mut Json, Option<&Json>, &Part<'_>),
    /// Validates a new or updated object, except its status.
    pub check: fn(&FieldValue<'_, '_>, &mut Causes),
    /// True if an update changes nothing that [`KindStrategy::check`] validates. The arguments are the new and the
    /// old object.
    pub skips_check: fn(&FieldValue<'_, '_>, &FieldValue<'_, '_>) -> bool,
    /// Additional validation on create.
    pub create: fn(&FieldValue<'_, '_>, &mut Causes),
    /// Additional validation of updates, except those of the status. The arguments are the new and the old object.
    pub update: fn(&FieldValue<'_, '_>, &FieldValue<'_, '_>, &mut Causes),
    /// Dotted paths of the fields that an update cannot change.
    pub immutable: &'static [&'static str],
    /// Validates a new status. The arguments are the new and the old object.
    pub status: fn(&FieldValue<'_, '_>, &FieldValue<'_, '_>, &mut Causes),
    /// Validates a write of a subresource. The arguments are its name, the new and the old object.
    pub subresource: fn(&str, &FieldValue<'_, '_>, &FieldValue<'_, '_>, &mut Causes),
    /// Returns the warnings for the client, for example about deprecated fields.
    pub warn: fn(&Json) -> Vec<String>,
    /// True if an update is a heartbeat. The arguments are the old and the new object.
    pub heartbeat: fn(&Json, &Json) -> bool,
}

/// A strategy that changes and rejects nothing.
pub(super) const NO_OP: KindStrategy = KindStrategy {
    default: |_| {},
    prepare: |_, _, _| {},
    check: |_, _| {},
    skips_check: |_, _| false,
    create: |_, _| {},
    update: |_, _, _| {},
    immutable: &[],
    status: |_, _, _| {},
    subresource: |_, _, _, _| {},
    warn: |_| Vec::new(),
    heartbeat: |_, _| false,
};

impl Strategy for KindStrategy {
    fn default(&self, object: &mut Json) -> Result<(), DefaultsTooLarge> {
        (self.default)(object);
        Ok(())
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, part: &Part<'_>) {
        (self.prepare)(object, before, part);
        if *part == Part::Main && before.is_none() && !object.contains_key("status") {
            let first = schema::initial_status(text(object, "apiVersion"), text(object, "kind"));
            object.extend(first.map(|status| ("status".to_owned(), status)));
        } else if *part == Part::Status || before.is_none() {
            let (api_version, kind) =
                (text(object, "apiVersion").to_owned(), text(object, "kind").to_owned());
            schema::require_status(object, &api_version, &kind);
        }
    }

    fn validate(&self, object: &Json, before: Option<&Json>, part: &Part<'_>) -> Vec<Cause> {
        let mut causes = Causes::default();
        let new = &FieldValue::root(object);
        let old = before.map(FieldValue::root);
        match (part, &old) {
            (Part::Main, None) => {
                (self.check)(new, &mut causes);
                (self.create)(new, &mut causes);
            }
            (Part::Main, Some(old)) => {
                if !(self.skips_check)(new, old) {
                    (self.check)(new, &mut causes);
                }
                causes.immutable(new, old, self.immutable);
                (self.update)(new, old, &mut causes);
            }
            (Part::Status, Some(old)) => (self.status)(new, old, &mut causes),
            (Part::Sub(name), Some(old)) => (self.subresource)(name, new, old, &mut causes),
            (Part::Status | Part::Sub(_), None) => {}
        }
        causes.into_vec()
    }

    fn warnings(&self, object: &Json) -> Vec<String> {
        (self.warn)(object)
    }

    fn is_heartbeat(&self, before: &Json, after: &Json) -> bool {
        (self.heartbeat)(before, after)
    }
}
