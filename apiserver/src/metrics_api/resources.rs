//! The resources of the metrics API, which are computed and not stored.

use std::sync::Arc;

use api::shape::Shape;
use api::table;
use serde_json::{Map, Value, json};

use crate::resource::{Resource, Schema};

/// API group.
pub const GROUP: &str = "metrics.k8s.io";
/// API version.
pub const VERSION: &str = "v1beta1";
/// Supported verbs.
const VERBS: &[&str] = &["get", "list"];

/// The rows of NodeMetrics and PodMetrics.
pub fn resources() -> Vec<Resource> {
    vec![nodes(), pods()]
}

/// The row of NodeMetrics.
pub fn nodes() -> Resource {
    let usage = json!({"type": "object", "additionalProperties": {"type": "string"}, "description": USAGE});
    row("NodeMetrics", "nodes", table::NODE_METRICS, ("usage", usage)).cluster()
}

/// The row of PodMetrics.
pub fn pods() -> Resource {
    let containers = json!({
        "type": "array",
        "description": "The running containers.",
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name of the container."},
                "usage": {"type": "object", "additionalProperties": {"type": "string"}, "description": USAGE},
            },
        },
    });
    row("PodMetrics", "pods", table::POD_METRICS, ("containers", containers))
}

const USAGE: &str = "Average CPU usage during the window, and memory usage at its end.";

fn row(kind: &'static str, plural: &'static str, columns: table::Columns, own: (&str, Value)) -> Resource {
    let mut properties = json!({
        "timestamp": {"type": "string", "format": "date-time", "description": "Time at which the window ended."},
        "window": {"type": "string", "description": "Length of the window."},
    });
    properties[own.0] = own.1;
    let schema = Fields { kind, json: Arc::new(json!({"type": "object", "properties": properties})) };
    // The singular name is empty, as in metrics-server.
    Resource::new(GROUP, VERSION, kind, plural, "").verbs(VERBS).columns(columns).schema(Arc::new(schema))
}

/// Schema of a read-only resource.
struct Fields {
    kind: &'static str,
    json: Arc<Value>,
}

impl Schema for Fields {
    fn shape(&self) -> Shape<'_> {
        api::schema::shape("metrics.k8s.io/v1beta1", self.kind)
    }

    fn prune(&self, _object: &mut Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    fn json(&self) -> Option<Arc<Value>> {
        Some(self.json.clone())
    }
}
