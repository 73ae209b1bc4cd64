//! One value of a known form to an object: checked along its type, typed, defaulted, validated.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kinds::Form;
use crate::defaults;
use crate::fault::{Fault, Faults};
use crate::object::Object;
use crate::path::{Path, PathBuf};
use crate::problem::ObjectName;
use crate::{schema, validate};

/// What became of a value.
pub(super) struct Converted {
    /// What it calls itself, as far as that can be told.
    pub name: Option<ObjectName>,
    /// The object, when nothing is wrong with it.
    pub object: Option<Object>,
}

pub(super) fn object(form: Form, value: Value, faults: &mut Faults) -> Converted {
    let name = name_of_v1(form.kind(), &value);
    let object = match form {
        Form::Pod => typed("Pod", value, faults).map(|pod| Object::Pod(Box::new(pod))),
        Form::ConfigMap => typed("ConfigMap", value, faults).map(|map| Object::ConfigMap(Box::new(map))),
        Form::Secret => typed("Secret", value, faults).map(|secret| Object::Secret(Box::new(secret))),
        Form::V1Beta3Pod | Form::ContainerManifest | Form::BoundPod => None,
    };
    let Some(mut object) = object else { return Converted { name, object: None } };
    defaults::object(&mut object);
    let misshapen: Vec<PathBuf> = faults.iter().map(|fault| fault.path.clone()).collect();
    for fault in validate::object(&object) {
        if !explained(&fault, &misshapen) {
            faults.push(fault);
        }
    }
    Converted { name, object: Some(object).filter(|_| faults.is_empty()) }
}

/// True when a fault of the shape in the same place explains one of the meaning: where a field is misspelt, the right
/// one is missing, and that goes without saying.
fn explained(fault: &Fault, misshapen: &[PathBuf]) -> bool {
    misshapen.iter().any(|path| {
        let around = &path.steps()[..path.steps().len().saturating_sub(1)];
        fault.path.steps().starts_with(around)
    })
}

fn typed<T: DeserializeOwned>(type_name: &'static str, mut value: Value, faults: &mut Faults) -> Option<T> {
    schema::v1_object(type_name, &mut value, &Path::ROOT, faults);
    match serde_json::from_value(value) {
        Ok(object) => Some(object),
        Err(_) if !faults.is_empty() => None,
        Err(error) => {
            faults.add(
                &Path::ROOT,
                format!("cannot be read: {error}"),
                "compare it with a manifest that works",
            );
            None
        }
    }
}

/// What a `v1` or `v1beta3` object calls itself.
fn name_of_v1(kind: &str, value: &Value) -> Option<ObjectName> {
    let text = |field: &str| value.get("metadata")?.get(field)?.as_str().filter(|text| !text.is_empty());
    Some(ObjectName {
        kind: kind.to_owned(),
        namespace: text("namespace").unwrap_or(defaults::NAMESPACE).to_owned(),
        name: text("name")?.to_owned(),
    })
}
