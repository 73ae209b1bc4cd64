//! Converts autoscaler metrics between v2 and the form that v1 keeps in annotations.

use serde_json::{Map, Value, json};

/// A metric source, and the names of its fields in v2 and in v1.
type Names = (&'static str, &'static [(&'static str, &'static str)]);

/// The field names of metric targets or of current metrics.
#[derive(Clone, Copy)]
pub(super) struct Metrics {
    /// The field of v2 that contains the numbers: `target` or `current`.
    numbers: &'static str,
    sources: [Names; 5],
}

/// The field names of metric targets.
pub(super) const WANTED: Metrics = Metrics {
    numbers: "target",
    sources: [
        (
            "resource",
            &[
                ("name", "name"),
                ("target.averageUtilization", "targetAverageUtilization"),
                ("target.averageValue", "targetAverageValue"),
            ],
        ),
        (
            "containerResource",
            &[
                ("name", "name"),
                ("container", "container"),
                ("target.averageUtilization", "targetAverageUtilization"),
                ("target.averageValue", "targetAverageValue"),
            ],
        ),
        (
            "pods",
            &[
                ("metric.name", "metricName"),
                ("metric.selector", "selector"),
                ("target.averageValue", "targetAverageValue"),
            ],
        ),
        (
            "object",
            &[
                ("describedObject", "target"),
                ("metric.name", "metricName"),
                ("metric.selector", "selector"),
                ("target.value", "targetValue"),
                ("target.averageValue", "averageValue"),
            ],
        ),
        (
            "external",
            &[
                ("metric.name", "metricName"),
                ("metric.selector", "metricSelector"),
                ("target.value", "targetValue"),
                ("target.averageValue", "targetAverageValue"),
            ],
        ),
    ],
};

/// The field names of current metrics.
pub(super) const CURRENT: Metrics = Metrics {
    numbers: "current",
    sources: [
        (
            "resource",
            &[
                ("name", "name"),
                ("current.averageUtilization", "currentAverageUtilization"),
                ("current.averageValue", "currentAverageValue"),
            ],
        ),
        (
            "containerResource",
            &[
                ("name", "name"),
                ("container", "container"),
                ("current.averageUtilization", "currentAverageUtilization"),
                ("current.averageValue", "currentAverageValue"),
            ],
        ),
        (
            "pods",
            &[
                ("metric.name", "metricName"),
                ("metric.selector", "selector"),
                ("current.averageValue", "currentAverageValue"),
            ],
        ),
        (
            "object",
            &[
                ("describedObject", "target"),
                ("metric.name", "metricName"),
                ("metric.selector", "selector"),
                ("current.value", "currentValue"),
                ("current.averageValue", "averageValue"),
            ],
        ),
        (
            "external",
            &[
                ("metric.name", "metricName"),
                ("metric.selector", "metricSelector"),
                ("current.value", "currentValue"),
                ("current.averageValue", "currentAverageValue"),
            ],
        ),
    ],
};

impl Metrics {
    /// Converts a v2 metric to v1.
    pub fn in_v1(self, metric: &Value) -> Value {
        self.map_sources(metric, |source, names| {
            let mut old = Map::new();
            for (new_name, old_name) in names {
                if let Some(value) = source.pointer(&format!("/{}", new_name.replace('.', "/"))) {
                    old.insert((*old_name).to_owned(), value.clone());
                }
            }
            Value::Object(old)
        })
    }

    /// Converts a v1 metric to v2.
    pub fn in_v2(self, metric: &Value) -> Value {
        let mut metric = self.map_sources(metric, |source, names| {
            let mut new = json!({});
            for (new_name, old_name) in names {
                if let Some(value) = source.get(old_name) {
                    match new_name.split_once('.') {
                        None => new[*new_name] = value.clone(),
                        Some((part, rest)) => new[part][rest] = value.clone(),
                    }
                }
            }
            new
        });
        if self.numbers == WANTED.numbers {
            for (name, _) in self.sources {
                if let Some(source) = metric.get_mut(name).filter(|source| source.is_object()) {
                    source["target"]["type"] = type_of(&source["target"], name).into();
                }
            }
        }
        metric
    }

    /// Applies `convert` to each source of a metric.
    fn map_sources(
        self,
        metric: &Value,
        convert: impl Fn(&Value, &[(&'static str, &'static str)]) -> Value,
    ) -> Value {
        let mut converted = metric.clone();
        for (name, names) in self.sources {
            if let Some(source) = converted.get_mut(name).filter(|source| source.is_object()) {
                *source = convert(source, names);
            }
        }
        converted
    }
}

/// The target type, which v1 does not store.
fn type_of(target: &Value, source: &str) -> &'static str {
    let has = |number: &str| target.get(number).is_some();
    if has("averageUtilization") {
        "Utilization"
    } else if has("averageValue") && (source == "object" || !has("value")) {
        "AverageValue"
    } else {
        "Value"
    }
}

/// CPU utilization in percent, if the metric is a CPU resource metric.
pub(super) fn cpu_utilization(metric: &Value, of: Metrics) -> Option<Value> {
    let resource = metric.get("resource").filter(|_| metric["type"] == "Resource")?;
    let percent = resource.get(of.numbers)?.get("averageUtilization")?;
    (resource["name"] == "cpu").then(|| percent.clone())
}

/// Creates a resource metric for CPU utilization.
pub(super) fn cpu_metric(percent: Value, of: Metrics) -> Value {
    let mut numbers = json!({"averageUtilization": percent});
    if of.numbers == WANTED.numbers {
        numbers["type"] = "Utilization".into();
    }
    let mut resource = json!({"name": "cpu"});
    resource[of.numbers] = numbers;
    json!({"type": "Resource", "resource": resource})
}
