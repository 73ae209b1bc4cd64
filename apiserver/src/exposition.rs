//! Text formats of `/metrics`: Prometheus 0.0.4 as in kube-apiserver, and OpenMetrics 1.0.0 for clients that prefer
//! it.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};

const OPEN_METRICS: &str = "application/openmetrics-text";
/// Media type of OpenMetrics responses.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Media type of the Prometheus text format.
pub const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counters whose stock name lacks the suffix `_total`, which OpenMetrics requires.
const WITHOUT_TOTAL: &[&str] = &["kubelet_evictions"];

/// Sends metrics, given as OpenMetrics text, in the format that `Accept` prefers.
pub fn respond(request: &HeaderMap, open_metrics: String) -> Response {
    let accept = request.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept: Vec<&str> = accept.flat_map(|value| value.split(',')).collect();
    let vary = (header::VARY, "Accept");
    if prefers_open_metrics(&accept) {
        return ([(header::CONTENT_TYPE, OPEN_METRICS_TYPE), vary], open_metrics).into_response();
    }
    ([(header::CONTENT_TYPE, TEXT_TYPE), vary], prometheus_text(&open_metrics)).into_response()
}

/// Whether the client prefers OpenMetrics 1.0.0 to plain text, or accepts both equally. Without `Accept` the
/// response is plain text.
fn prefers_open_metrics(accept: &[&str]) -> bool {
    let mut open_metrics = 0.0_f32;
    let mut text = 0.0_f32;
    for range in accept {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut quality, mut version) = (1.0_f32, "");
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("q", value)) => quality = value.trim().parse().unwrap_or(0.0),
                Some(("version", value)) => version = value.trim().trim_matches('"'),
                _ => {}
            }
        }
        match media_type.as_str() {
            OPEN_METRICS if matches!(version, "" | "1.0.0") => open_metrics = quality.max(open_metrics),
            "text/plain" if matches!(version, "" | "0.0.4") => text = quality.max(text),
            _ => {}
        }
    }
    open_metrics > 0.0 && open_metrics >= text
}

/// Converts OpenMetrics text to Prometheus text 0.0.4. Counter metadata gets the suffix `_total` of its samples,
/// info metrics become gauges, and units and the end marker are dropped.
fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // HELP precedes TYPE, so the types are collected first.
    let kinds: BTreeMap<&str, &str> = open_metrics
        .lines()
        .filter_map(metadata)
        .filter(|(keyword, ..)| *keyword == "TYPE")
        .map(|(_, name, kind)| (name, kind))
        .collect();
    let suffix = |name: &str| match kinds.get(name) {
        Some(&"counter") if !name.ends_with("_total") && !WITHOUT_TOTAL.contains(&name) => "_total",
        Some(&"info") => "_info",
        _ => "",
    };
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let Some((keyword, name, rest)) = metadata(line) else {
            let stock = WITHOUT_TOTAL.iter().find_map(|name| {
                let rest = line.strip_prefix(name)?.strip_prefix("_total")?;
                rest.starts_with(['{', ' ']).then(|| format!("{name}{rest}"))
            });
            text.push_str(stock.as_deref().unwrap_or(line));
            text.push('\n');
            continue;
        };
        let rest = match (keyword, rest) {
            ("TYPE", "info" | "stateset") => "gauge",
            ("TYPE", "unknown") => "untyped",
            ("TYPE", "gaugehistogram") => "histogram",
            (_, rest) => rest,
        };
        text.push_str(&format!("# {keyword} {name}{} {rest}\n", suffix(name)));
    }
    text
}

/// Returns keyword, name and rest of a metadata line.
fn metadata(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix("# ")?;
    let (keyword, rest) = rest.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    matches!(keyword, "TYPE" | "HELP").then_some((keyword, name, rest))
}

#[cfg(test)]
mod tests {
    //! Tests of format selection and conversion.
    use super::{prefers_open_metrics, prometheus_text};

    #[test]
    fn exposition_format_follows_the_accept_header() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text; version=1.0.0", true),
            ("application/openmetrics-text;version=0.0.1", false),
            ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            (prometheus_3, true),
        ] {
            assert_eq!(prefers_open_metrics(&accept.split(',').collect::<Vec<_>>()), expected, "{accept}");
        }
    }

    #[test]
    fn counters_have_the_name_of_their_series() {
        let open = "# HELP a_requests Answered.\n# TYPE a_requests counter\n# UNIT a_requests requests\n\
                    a_requests_total{code=\"200\"} 1\n# HELP up Runs.\n# TYPE up gauge\nup 1\n# EOF\n";
        let text = "# HELP a_requests_total Answered.\n# TYPE a_requests_total counter\n\
                    a_requests_total{code=\"200\"} 1\n# HELP up Runs.\n# TYPE up gauge\nup 1\n";
        assert_eq!(prometheus_text(open), text);
    }

    #[test]
    fn stock_counters_without_the_suffix_keep_their_name() {
        let open = "# HELP kubelet_evictions Evicted.\n# TYPE kubelet_evictions counter\n\
                    kubelet_evictions_total{eviction_signal=\"memory.available\"} 2\n# EOF\n";
        let text = "# HELP kubelet_evictions Evicted.\n# TYPE kubelet_evictions counter\n\
                    kubelet_evictions{eviction_signal=\"memory.available\"} 2\n";
        assert_eq!(prometheus_text(open), text);
    }
}
