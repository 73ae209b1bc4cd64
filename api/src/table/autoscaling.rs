//! Printer columns of HorizontalPodAutoscalers.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Columns, NAME, NONE, Object, age, at, count, field, list, name, plain, shown, text_at};

/// Limit for the metrics in one cell.
const MAX_METRICS: usize = 2;

/// The printer columns of HorizontalPodAutoscalers.
pub const AUTOSCALERS: Columns = Columns {
    heads: &[
        NAME,
        shown("Reference", "The scaled object."),
        shown("Targets", "The current and target metrics."),
        shown("MinPods", "The minimum number of replicas."),
        shown("MaxPods", "The maximum number of replicas."),
        shown("Replicas", "The current number of replicas."),
        AGE,
    ],
    cells,
};

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let target = |of: &str| text_at(object, &["spec", "scaleTargetRef", of]);
    let least = at(object, &["spec", "minReplicas"]).map_or_else(|| "<unset>".to_owned(), plain);
    vec![
        name(object),
        format!("{}/{}", target("kind"), target("name")).into(),
        metrics(object).into(),
        least.into(),
        count(object, &["spec", "maxReplicas"]).into(),
        count(object, &["status", "currentReplicas"]).into(),
        age::of(object, now),
    ]
}

fn metrics(object: &Object) -> String {
    let seen = list(object, "status", "currentMetrics");
    let all: Vec<String> = (list(object, "spec", "metrics").iter().enumerate())
        .map(|(index, wanted)| metric(wanted, seen.get(index)))
        .collect();
    match all.len() {
        0 => NONE.to_owned(),
        many if many > MAX_METRICS => {
            format!("{} + {} more...", all[..MAX_METRICS].join(", "), many - MAX_METRICS)
        }
        _ => all.join(", "),
    }
}

/// Formats a metric with its current and target value: `cpu: 40%/80%`.
fn metric(wanted: &Value, seen: Option<&Value>) -> String {
    let (source, named) = match field(wanted, "type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let target = wanted.get(source).and_then(|source| source.get("target"));
    let current = seen.and_then(|seen| seen.get(source)).and_then(|source| source.get("current"));
    let now = |of: &str| current.and_then(|current| current.get(of)).map(plain);
    let wants = |of: &str| target.and_then(|target| target.get(of)).map(plain);
    let unknown = || "<unknown>".to_owned();
    let values = if let Some(value) = wants("averageUtilization") {
        let now = now("averageUtilization").map_or_else(unknown, |now| format!("{now}%"));
        format!("{now}/{value}%")
    } else if let Some(value) = wants("averageValue") {
        let average = if matches!(source, "object" | "external") { " (avg)" } else { "" };
        format!("{}/{value}{average}", now("averageValue").unwrap_or_else(unknown))
    } else {
        let value = wants("value").unwrap_or_else(|| "<auto>".to_owned());
        format!("{}/{value}", now("value").unwrap_or_else(unknown))
    };
    match wanted.get(source).map(|source| field(source, "name")) {
        Some(name) if named => format!("{name}: {values}"),
        _ => values,
    }
}
