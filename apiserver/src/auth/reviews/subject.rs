//! Converts between identities and their form in reviews. Pure.

use serde_json::{Map, Value, json};

use super::{text, texts};
use crate::identity::Identity;

/// The identity as `UserInfo`.
pub(super) fn user_info(who: &Identity) -> Value {
    let mut user = json!({"username": who.user});
    if !who.uid.is_empty() {
        user["uid"] = who.uid.as_str().into();
    }
    if !who.groups.is_empty() {
        user["groups"] = who.groups.clone().into();
    }
    if !who.extra.is_empty() {
        let extra = who.extra.iter().map(|(name, values)| (name.clone(), values.clone().into()));
        user["extra"] = Value::Object(extra.collect::<Map<_, _>>());
    }
    user
}

/// The user of a SubjectAccessReview, exactly as sent: no groups are added.
pub(super) fn read(spec: &Value) -> Identity {
    let extra = spec.get("extra").and_then(Value::as_object);
    Identity {
        user: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        extra: extra
            .into_iter()
            .flatten()
            .map(|(name, _)| (name.clone(), texts(&spec["extra"], name)))
            .collect(),
        ..Identity::default()
    }
}
