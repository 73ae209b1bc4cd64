//! The section of `kubelet describe pod` about volumes.

use k8s_openapi::api::core::v1::Volume;
use serde_json::Value;

use super::text::{Page, list, string};
use crate::volumes::types::{self, Line};

/// Describes the volumes of a pod.
pub fn describe(page: &mut Page, pod: &Value) {
    if list(pod, "/spec/volumes").next().is_none() {
        page.field(0, "Volumes", "<none>");
        return;
    }
    page.head(0, "Volumes");
    for volume in list(pod, "/spec/volumes") {
        page.head(2, string(volume, "/name"));
        source(page, volume);
    }
}

fn source(page: &mut Page, volume: &Value) {
    let typed = serde_json::from_value::<Volume>(volume.clone()).ok();
    let Some(source) = typed.as_ref().and_then(types::of) else {
        let kind =
            volume.as_object().into_iter().flatten().map(|(name, _)| name).find(|name| *name != "name");
        page.field(4, "Type", kind.map_or("<unknown>", String::as_str));
        return;
    };
    for line in source.describe() {
        match line {
            Line::Field(label, value) => page.field(4, label, &value),
            Line::Heading(text) => page.head(4, text),
            Line::Item(text) => page.line(6, &text),
        }
    }
}
