//! Converts one value of a known form to an object: checks its types, sets defaults and validates it.

use serde::Deserialize;
use serde_json::Value;

use super::kinds::Form;
use crate::defaults;
use crate::field_error::{ErrorType, FieldError, FieldErrors, Target};
use crate::legacy::{self, Legacy};
use crate::object::Object;
use crate::path::{OwnedStep, Path, PathBuf};
use crate::problem::ObjectName;
use crate::schema;
use crate::strategy::{self, Part};
use crate::validate::{self, REQUIRED};

/// The result of a conversion.
pub(super) struct Converted {
    /// The name of the object, if it has one.
    pub name: Option<ObjectName>,
    /// The object, if it is valid.
    pub object: Option<Object>,
}

/// An additional check that the caller supplies. It runs only on objects without other errors.
type ExtraCheck<'a> = &'a dyn Fn(&Object) -> Vec<FieldError>;

pub(super) fn object(
    form: Form,
    value: Value,
    extra_check: ExtraCheck<'_>,
    errors: &mut FieldErrors,
) -> Converted {
    match form {
        Form::Legacy(form) => legacy(form, value, extra_check, errors),
        Form::Pod | Form::ConfigMap | Form::Secret | Form::Service => v1(form, value, extra_check, errors),
    }
}

fn v1(form: Form, mut value: Value, extra_check: ExtraCheck<'_>, errors: &mut FieldErrors) -> Converted {
    let name = name_of(form.kind(), &value);
    schema::v1_object(form.kind(), &mut value, &Path::ROOT, errors);
    let object = match form {
        Form::Pod | Form::Legacy(_) => pod(value, errors),
        Form::ConfigMap => typed(&value, errors).map(|map| Object::ConfigMap(Box::new(map))),
        Form::Secret => typed(&value, errors).map(|secret| Object::Secret(Box::new(secret))),
        Form::Service => service(value, errors),
    };
    Converted {
        name,
        object: object.and_then(|object| default_and_validate(object, extra_check, errors, |error| error)),
    }
}

/// Checks a manifest of an older API version against the types of that version. Errors in the converted Pod are
/// reported with the field names of the manifest.
fn legacy(
    form: legacy::Form,
    value: Value,
    extra_check: ExtraCheck<'_>,
    errors: &mut FieldErrors,
) -> Converted {
    let mut legacy = Legacy::read(form, value, errors);
    let name = name_of("Pod", &legacy.pod);
    let mut in_v1 = FieldErrors::default();
    schema::v1_object("Pod", &mut legacy.pod, &Path::ROOT, &mut in_v1);
    for error in in_v1.into_vec() {
        errors.push(legacy.error(error));
    }
    let object = pod(legacy.pod.clone(), errors);
    Converted {
        name,
        object: object.and_then(|object| {
            default_and_validate(object, extra_check, errors, |error| legacy.error(error))
        }),
    }
}

/// Sets defaults and validates. Returns the object if there are no errors. `by_name` translates the field paths of
/// errors to those of the manifest.
fn default_and_validate(
    mut object: Object,
    extra_check: ExtraCheck<'_>,
    errors: &mut FieldErrors,
    by_name: impl Fn(FieldError) -> FieldError,
) -> Option<Object> {
    defaults::object(&mut object);
    let malformed: Vec<PathBuf> = errors.iter().map(|error| error.path.clone()).collect();
    let found = validate::object(&object).into_iter().chain(extra_check(&object));
    for error in found.map(by_name) {
        if !is_consequence(&error, &malformed) {
            errors.push(error);
        }
    }
    errors.is_empty().then_some(object)
}

/// True if a type error already explains a validation error. Examples are a missing required field beside a
/// misspelt one, and a value that could not be read completely.
fn is_consequence(error: &FieldError, malformed: &[PathBuf]) -> bool {
    let steps = error.path.steps();
    malformed.iter().any(|path| {
        let Some((last, around)) = path.steps().split_last() else { return true };
        let missing_beside =
            error.what == REQUIRED && steps.len() == path.steps().len() && steps.starts_with(around);
        let in_list = matches!(last, OwnedStep::Index(_)) && steps.starts_with(around);
        missing_beside || in_list || steps.starts_with(path.steps())
    })
}

/// Sets the defaults of the spec and deserializes the Pod.
fn pod(mut value: Value, errors: &mut FieldErrors) -> Option<Object> {
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        defaults::pod_spec(spec);
    }
    typed(&value, errors).map(|pod| Object::Pod(Box::new(pod)))
}

/// Sets the defaults of a Service, validates it with the strategy of the API, and deserializes it. The caller checks the
/// metadata.
fn service(mut value: Value, errors: &mut FieldErrors) -> Option<Object> {
    if let Value::Object(fields) = &mut value
        && errors.is_empty()
    {
        let strategy = strategy::of("", "Service");
        // Defaults add only a few fields to each port, and the size of manifests is limited.
        let _ = strategy.default(fields);
        for cause in strategy.validate(fields, None, &Part::Main) {
            errors.push(FieldError {
                path: cause.field.as_str().into(),
                target: Target::Value,
                error_type: ErrorType::Invalid,
                what: cause.message,
                remedy: "correct it as for kubectl apply".to_owned(),
            });
        }
    }
    typed(&value, errors).map(|service| Object::Service(Box::new(service)))
}

// All callers deserialize from a reference, because each other way would compile all types again.
fn typed<'de, T: Deserialize<'de>>(value: &'de Value, errors: &mut FieldErrors) -> Option<T> {
    match T::deserialize(value) {
        Ok(object) => Some(object),
        Err(_) if !errors.is_empty() => None,
        Err(error) => {
            errors.add(
                &Path::ROOT,
                format!("cannot be read: {error}"),
                "compare it with a manifest that works",
            );
            None
        }
    }
}

/// The kind, namespace and name of an object.
fn name_of(kind: &str, value: &Value) -> Option<ObjectName> {
    let text = |field: &str| value.get("metadata")?.get(field)?.as_str().filter(|text| !text.is_empty());
    Some(ObjectName {
        kind: kind.to_owned(),
        namespace: text("namespace").unwrap_or(defaults::NAMESPACE).to_owned(),
        name: text("name")?.to_owned(),
    })
}
