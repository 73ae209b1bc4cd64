//! Pods as they were written before v1: read along their own types, then said in the words of today.

mod container;
mod paths;
mod pod;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::Value;

use crate::fault::{Fault, Faults};
use crate::path::Path;
use crate::schema::{Kind, Schema, check};

/// The forms a Pod had before v1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `version: v1beta1` or `v1beta2`, and no kind: from before there were Pods.
    ContainerManifest,
    /// What an early master handed to a node.
    BoundPod,
    /// A Pod of `v1beta3`.
    V1Beta3Pod,
}

/// A Pod that was written in an older form.
#[derive(Debug)]
pub struct Legacy {
    form: Form,
    /// The manifest, to tell findings by its names.
    manifest: Value,
    /// The same Pod in v1.
    pub pod: Value,
}

impl Legacy {
    /// Checks a manifest along the types of its form, and converts it. What is wrong is left out of the Pod.
    pub fn read(form: Form, mut manifest: Value, faults: &mut Faults) -> Self {
        let (schema, of) = match form {
            Form::ContainerManifest => (v1beta1(), "ContainerManifest"),
            Form::BoundPod => (v1beta1(), "BoundPod"),
            Form::V1Beta3Pod => (v1beta3(), "Pod"),
        };
        check(schema, &Kind::Object(of), &mut manifest, &Path::ROOT, faults);
        let pod = match form {
            Form::ContainerManifest => pod::of_manifest(manifest.clone(), faults),
            Form::BoundPod => pod::of_bound_pod(manifest.clone(), faults),
            Form::V1Beta3Pod => pod::of_v1beta3(manifest.clone(), faults),
        };
        Self { form, manifest, pod }
    }

    /// The same finding by the names of the manifest instead of v1.
    pub fn fault(&self, fault: Fault) -> Fault {
        Fault { path: paths::in_manifest(self.form, &self.manifest, &fault.path), ..fault }
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
