//! PodTemplates: a template by itself.

use crate::strategy::Json;
use crate::strategy::rules::{NONE, Rules};
use crate::strategy::template::{self, Wanted};

const ANY: Wanted =
    Wanted { kind: "PodTemplate", restart_policies: &["Always", "OnFailure", "Never"], deadline: true };

pub(in crate::strategy) static RULES: Rules = Rules {
    default: |object| template::default(object, "template.spec"),
    check: |object, causes| {
        template::check(object.fields().unwrap_or(&Json::new()), "template", &ANY, causes)
    },
    ..NONE
};
