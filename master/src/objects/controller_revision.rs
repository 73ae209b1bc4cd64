//! ControllerRevisions: the pod templates that a StatefulSet or DaemonSet has had.

use serde::Deserialize;
use serde_json::Value;

use super::meta::ObjectMeta;
use super::template::TemplateDigest;
use super::values::StringMap;

/// The field of a template in [`ControllerRevision::data`] that makes a strategic merge patch replace the template.
pub const PATCH_DIRECTIVE: &str = "$patch";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    pub metadata: ObjectMeta<StringMap>,
    /// The number of the revision. The highest one is the newest.
    pub revision: i64,
    pub data: RevisionData,
}

/// `data` of a ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Value")]
pub struct RevisionData {
    /// The pod template. `None` if the data has another form, because it belongs to a controller of another project.
    pub template: Option<Value>,
}

impl RevisionData {
    /// Returns the digest of the template.
    pub fn digest(&self) -> Option<TemplateDigest> {
        self.template.as_ref().map(TemplateDigest::of)
    }
}

impl From<Value> for RevisionData {
    fn from(mut data: Value) -> Self {
        let mut template = data.pointer_mut("/spec/template").map(Value::take).filter(Value::is_object);
        if let Some(fields) = template.as_mut().and_then(Value::as_object_mut) {
            fields.shift_remove(PATCH_DIRECTIVE);
        }
        Self { template }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_template_of_a_stock_revision_is_read() {
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}});
        let mut patch = template.clone();
        patch[PATCH_DIRECTIVE] = "replace".into();
        let revision: ControllerRevision = serde_json::from_value(json!({
            "metadata": {"name": "web-1"}, "revision": 3, "data": {"spec": {"template": patch}},
        }))
        .unwrap();
        assert_eq!((revision.revision, &revision.data.template), (3, &Some(template.clone())));
        assert_eq!(revision.data.digest(), Some(TemplateDigest::of(&template)));
    }

    #[test]
    fn data_of_another_form_has_no_template() {
        for data in [json!(null), json!({}), json!({"spec": {"template": "x"}}), json!([1])] {
            let revision: ControllerRevision = serde_json::from_value(json!({"data": data})).unwrap();
            assert_eq!(revision.data.digest(), None, "{data}");
        }
    }
}
