//! What the built-in kinds differ in: a handful of functions each, called in the same order for all.

use super::causes::Causes;
use super::fill::text;
use super::place::Place;
use super::{Cause, Json, Part, Strategy};
use crate::schema;

/// The logic of one built-in kind. What a kind has no opinion on is [`NONE`]'s.
pub(super) struct Rules {
    /// Fills in what the client left out.
    pub default: fn(&mut Json),
    /// Decides what is not the client's to decide.
    pub prepare: fn(&mut Json, Option<&Json>, &Part<'_>),
    /// What is wrong with an object of the kind, new or changed, apart from its status.
    pub check: fn(&Place<'_, '_>, &mut Causes),
    /// True when an update leaves everything as it was that [`Rules::check`] looks at: the new object, then the old one.
    pub is_checked: fn(&Place<'_, '_>, &Place<'_, '_>) -> bool,
    /// What may not be said of a new object alone.
    pub create: fn(&Place<'_, '_>, &mut Causes),
    /// What an update of all but the status may not change: the new object, then the old one.
    pub update: fn(&Place<'_, '_>, &Place<'_, '_>, &mut Causes),
    /// Fields that keep the value they were created with.
    pub frozen: &'static [&'static str],
    /// What is wrong with a new status: the new object, then the old one.
    pub status: fn(&Place<'_, '_>, &Place<'_, '_>, &mut Causes),
    /// What is wrong with a change to another part: its name, the new object, then the old one.
    pub sub: fn(&str, &Place<'_, '_>, &Place<'_, '_>, &mut Causes),
    /// What is allowed and unwise.
    pub warn: fn(&Json) -> Vec<String>,
    /// Whether an update is a heartbeat: the object before, then the new one.
    pub heartbeat: fn(&Json, &Json) -> bool,
}

/// What the rules of a kind that has some begin with.
pub(super) const NONE: Rules = Rules {
    default: |_| {},
    prepare: |_, _, _| {},
    check: |_, _| {},
    is_checked: |_, _| false,
    create: |_, _| {},
    update: |_, _, _| {},
    frozen: &[],
    status: |_, _, _| {},
    sub: |_, _, _, _| {},
    warn: |_| Vec::new(),
    heartbeat: |_, _| false,
};

impl Strategy for Rules {
    fn default(&self, object: &mut Json) {
        (self.default)(object);
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, part: &Part<'_>) {
        (self.prepare)(object, before, part);
        if *part == Part::Main && before.is_none() && !object.contains_key("status") {
            let first = schema::first_status(text(object, "apiVersion"), text(object, "kind"));
            object.extend(first.map(|status| ("status".to_owned(), status)));
        } else if *part == Part::Status || before.is_none() {
            let (api_version, kind) =
                (text(object, "apiVersion").to_owned(), text(object, "kind").to_owned());
            schema::require_status(object, &api_version, &kind);
        }
    }

    fn validate(&self, object: &Json, before: Option<&Json>, part: &Part<'_>) -> Vec<Cause> {
        let mut causes = Causes::default();
        let new = &Place::root(object);
        let old = before.map(Place::root);
        match (part, &old) {
            (Part::Main, None) => {
                (self.check)(new, &mut causes);
                (self.create)(new, &mut causes);
            }
            (Part::Main, Some(old)) => {
                if !(self.is_checked)(new, old) {
                    (self.check)(new, &mut causes);
                }
                causes.frozen(new, old, self.frozen);
                (self.update)(new, old, &mut causes);
            }
            (Part::Status, Some(old)) => (self.status)(new, old, &mut causes),
            (Part::Sub(name), Some(old)) => (self.sub)(name, new, old, &mut causes),
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
