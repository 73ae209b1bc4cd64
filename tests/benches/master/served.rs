//! Reads the number of requests that a master has answered from its metrics.

use std::collections::BTreeMap;

use http::Method;

use crate::client::Way;

/// Maximum number of request kinds that the text lists. It lists the most frequent ones.
const MAX_LISTED: usize = 8;

/// Number of answered requests, by kind.
pub struct Served(BTreeMap<String, f64>);

/// Reads the current counters of a master.
pub async fn served(way: &Way) -> Served {
    let (code, body) = way.connect().await.unwrap().exchange(Method::GET, "/metrics", "").await.unwrap();
    assert_eq!(code, 200);
    let mut served = BTreeMap::new();
    let text = String::from_utf8(body.to_vec()).unwrap();
    for line in text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
        let (labels, count) = line.rsplit_once("} ").unwrap();
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap_or_default();
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        let parts = [label("verb"), label("resource"), label("subresource"), label("code")];
        *served.entry(parts.join(" ")).or_default() += count.parse::<f64>().unwrap();
    }
    Served(served)
}

impl Served {
    /// Returns the requests per second since `before`, and the most frequent kinds as text.
    pub fn since(&self, before: &Self, seconds: f64) -> (f64, String) {
        let of = |(what, count): (&String, &f64)| {
            (what.clone(), (count - before.0.get(what).copied().unwrap_or_default()) / seconds)
        };
        let mut each: Vec<(String, f64)> = self.0.iter().map(of).collect();
        each.sort_by(|one, other| other.1.total_cmp(&one.1));
        let rates = each.iter().take(MAX_LISTED).map(|(what, rate)| format!("{what} {rate:.1}"));
        (each.iter().map(|(_, rate)| rate).sum(), rates.collect::<Vec<_>>().join(", "))
    }
}
