//! Whether defaults are what the schema asks of the fields they are for.

use serde_json::Value;

use super::Causes;
use super::keywords::below;
use crate::crd::schema::Schema;
use crate::path::Path;

pub(super) fn defaults(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(of) = schema.as_object() else { return };
    if let Some(default) = of.get("default").filter(|default| !default.is_null()) {
        fits(schema, default, &path.field("default"), causes);
    }
    below(of, path, &mut |part, path| defaults(part, path, causes));
}

fn fits(schema: &Value, default: &Value, path: &Path<'_>, causes: &mut Causes) {
    let schema = Schema::read_part(schema);
    let mut value = default.clone();
    schema.fill(&mut value);
    if !schema.prune(&mut value).is_empty() {
        return causes.invalid(path, default, "must not have unknown fields");
    }
    for cause in schema.check_value(&value, path) {
        causes.add(cause);
    }
}
