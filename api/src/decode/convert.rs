//! One value of a known form to an object: checked along its type, typed, defaulted, validated.

use serde::Deserialize;
use serde_json::Value;

use super::kinds::Form;
use crate::defaults;
use crate::fault::{Fault, Faults};
use crate::legacy::{self, Legacy};
use crate::object::Object;
use crate::path::{OwnedStep, Path, PathBuf};
use crate::problem::ObjectName;
use crate::schema;
use crate::validate::{self, REQUIRED};

/// What became of a value.
pub(super) struct Converted {
    /// What it calls itself, as far as that can be told.
    pub name: Option<ObjectName>,
    /// The object, when nothing is wrong with it.
    pub object: Option<Object>,
}

/// What a caller finds in objects that are right otherwise.
type Also<'a> = &'a dyn Fn(&Object) -> Vec<Fault>;

pub(super) fn object(form: Form, value: Value, also: Also<'_>, faults: &mut Faults) -> Converted {
    match form {
        Form::Legacy(form) => legacy(form, value, also, faults),
        Form::Pod | Form::ConfigMap | Form::Secret => v1(form, value, also, faults),
    }
}

fn v1(form: Form, mut value: Value, also: Also<'_>, faults: &mut Faults) -> Converted {
    let name = name_of(form.kind(), &value);
    schema::v1_object(form.kind(), &mut value, &Path::ROOT, faults);
    let object = match form {
        Form::Pod | Form::Legacy(_) => pod(value, faults),
        Form::ConfigMap => typed(&value, faults).map(|map| Object::ConfigMap(Box::new(map))),
        Form::Secret => typed(&value, faults).map(|secret| Object::Secret(Box::new(secret))),
    };
    Converted { name, object: object.and_then(|object| finished(object, also, faults, |fault| fault)) }
}

/// An older form is checked along its own types; what is found in the converted Pod is told by the names it has there.
fn legacy(form: legacy::Form, value: Value, also: Also<'_>, faults: &mut Faults) -> Converted {
    let mut legacy = Legacy::read(form, value, faults);
    let name = name_of("Pod", &legacy.pod);
    let mut in_v1 = Faults::default();
    schema::v1_object("Pod", &mut legacy.pod, &Path::ROOT, &mut in_v1);
    for fault in in_v1.into_vec() {
        faults.push(legacy.fault(fault));
    }
    let object = pod(legacy.pod.clone(), faults);
    Converted {
        name,
        object: object.and_then(|object| finished(object, also, faults, |fault| legacy.fault(fault))),
    }
}

/// The object, defaulted, when nothing is wrong with it. `by_name` says a finding by the names of the manifest.
fn finished(
    mut object: Object,
    also: Also<'_>,
    faults: &mut Faults,
    by_name: impl Fn(Fault) -> Fault,
) -> Option<Object> {
    defaults::object(&mut object);
    let misshapen: Vec<PathBuf> = faults.iter().map(|fault| fault.path.clone()).collect();
    let found = validate::object(&object).into_iter().chain(also(&object));
    for fault in found.map(by_name) {
        if !explained(&fault, &misshapen) {
            faults.push(fault);
        }
    }
    faults.is_empty().then_some(object)
}

/// True when a fault of the shape explains one of the meaning: what is missing where a field is misspelt, and whatever
/// is wrong inside of a value, or of a list, that could not be read in whole.
fn explained(fault: &Fault, misshapen: &[PathBuf]) -> bool {
    let steps = fault.path.steps();
    misshapen.iter().any(|path| {
        let Some((last, around)) = path.steps().split_last() else { return true };
        let missing_beside =
            fault.what == REQUIRED && steps.len() == path.steps().len() && steps.starts_with(around);
        let in_list = matches!(last, OwnedStep::Index(_)) && steps.starts_with(around);
        missing_beside || in_list || steps.starts_with(path.steps())
    })
}

/// A Pod whose spec is filled in.
fn pod(mut value: Value, faults: &mut Faults) -> Option<Object> {
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        defaults::pod_spec(spec);
    }
    typed(&value, faults).map(|pod| Object::Pod(Box::new(pod)))
}

// All that types an object reads it from a reference: each other way would compile every type once more.
fn typed<'de, T: Deserialize<'de>>(value: &'de Value, faults: &mut Faults) -> Option<T> {
    match T::deserialize(value) {
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

/// What an object calls itself.
fn name_of(kind: &str, value: &Value) -> Option<ObjectName> {
    let text = |field: &str| value.get("metadata")?.get(field)?.as_str().filter(|text| !text.is_empty());
    Some(ObjectName {
        kind: kind.to_owned(),
        namespace: text("namespace").unwrap_or(defaults::NAMESPACE).to_owned(),
        name: text("name")?.to_owned(),
    })
}
