//! Pods of API versions before v1: checked against their own types, then converted to v1.

mod container;
mod paths;
mod pod;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::Value;

use crate::field_error::{FieldError, FieldErrors};
use crate::path::Path;
use crate::schema::{Kind, Schema, check};

/// The forms of a Pod before v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A ContainerManifest: `version: v1beta1` or `v1beta2`, and no kind.
    ContainerManifest,
    /// A BoundPod, which early masters sent to nodes.
    BoundPod,
    /// A `v1beta3` Pod.
    V1Beta3Pod,
}

/// A Pod of an old API version.
#[derive(Debug)]
pub struct Legacy {
    form: Form,
    /// The original manifest, to translate field paths.
    manifest: Value,
    /// The Pod in v1.
    pub pod: Value,
}

impl Legacy {
    /// Checks a manifest against the types of its form, and converts it. Invalid values are left out of the Pod.
    pub fn read(form: Form, mut manifest: Value, errors: &mut FieldErrors) -> Self {
        let (schema, of) = match form {
            Form::ContainerManifest => (v1beta1(), "ContainerManifest"),
            Form::BoundPod => (v1beta1(), "BoundPod"),
            Form::V1Beta3Pod => (v1beta3(), "Pod"),
        };
        check(schema, &Kind::Object(of), &mut manifest, &Path::ROOT, errors);
        let pod = match form {
            Form::ContainerManifest => pod::of_manifest(manifest.clone(), errors),
            Form::BoundPod => pod::of_bound_pod(manifest.clone(), errors),
            Form::V1Beta3Pod => pod::of_v1beta3(manifest.clone(), errors),
        };
        Self { form, manifest, pod }
    }

    /// Translates the path of an error from v1 to the manifest.
    pub fn error(&self, error: FieldError) -> FieldError {
        FieldError { path: paths::in_manifest(self.form, &self.manifest, &error.path), ..error }
    }
}

fn v1beta1() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> =
        LazyLock::new(|| Schema::parse(&[include_str!("../schema/v1.txt"), include_str!("v1beta1.txt")]));
    &SCHEMA
}

fn v1beta3() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> =
        LazyLock::new(|| Schema::parse(&[include_str!("../schema/v1.txt"), include_str!("v1beta3.txt")]));
    &SCHEMA
}
