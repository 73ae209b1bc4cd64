//! Metrics of an autoscaler, in the names of v2 and in those that v1 keeps in annotations.

use serde_json::{Map, Value, json};

/// Where a metric is, what its parts are called in v2, and what they are called in v1.
type Names = (&'static str, &'static [(&'static str, &'static str)]);

/// What autoscalers aim at, or what was last found.
#[derive(Clone, Copy)]
pub(super) struct Metrics {
    /// The part that holds the numbers: `target` or `current`.
    numbers: &'static str,
    sources: [Names; 5],
}

/// What they aim at.
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

/// What was last found.
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
    /// A metric of v2 in the names of v1.
    pub fn in_v1(self, metric: &Value) -> Value {
        self.told(metric, |source, names| {
            let mut old = Map::new();
            for (new_name, old_name) in names {
                if let Some(value) = source.pointer(&format!("/{}", new_name.replace('.', "/"))) {
                    old.insert((*old_name).to_owned(), value.clone());
                }
            }
            Value::Object(old)
        })
    }

    /// A metric of v1 in the names of v2.
    pub fn in_v2(self, metric: &Value) -> Value {
        let mut metric = self.told(metric, |source, names| {
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

    /// The metric with each of its sources as `tell` has it.
    fn told(self, metric: &Value, tell: impl Fn(&Value, &[(&'static str, &'static str)]) -> Value) -> Value {
        let mut told = metric.clone();
        for (name, names) in self.sources {
            if let Some(source) = told.get_mut(name).filter(|source| source.is_object()) {
                *source = tell(source, names);
            }
        }
        told
    }
}

/// What kind of number is aimed at, which v1 does not say.
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

/// The use of processors in percent, if the metric is of that.
pub(super) fn processor_share(metric: &Value, of: Metrics) -> Option<Value> {
    let resource = metric.get("resource").filter(|_| metric["type"] == "Resource")?;
    let percent = resource.get(of.numbers)?.get("averageUtilization")?;
    (resource["name"] == "cpu").then(|| percent.clone())
}

/// The metric that says so much of processors.
pub(super) fn of_processors(percent: Value, of: Metrics) -> Value {
    let mut numbers = json!({"averageUtilization": percent});
    if of.numbers == WANTED.numbers {
        numbers["type"] = "Utilization".into();
    }
    let mut resource = json!({"name": "cpu"});
    resource[of.numbers] = numbers;
    json!({"type": "Resource", "resource": resource})
}
