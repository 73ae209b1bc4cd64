//! Pod CIDRs that are reserved for Nodes being written, as stored in a ConfigMap. Pure.

use std::collections::BTreeMap;

use api::strategy::Json;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

/// The resource name of the object.
pub const RESOURCE: &str = "configmaps";
/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap.
pub const NAME: &str = "pod-ranges-promised";
/// The data key with the reservations.
const FIELD: &str = "promises";
/// How long a reservation lasts. That is longer than any request or delayed write to the store.
const RESERVATION_TTL: SignedDuration = SignedDuration::from_secs(90);

/// Reserved CIDRs and their expiry, by Node name.
#[derive(Debug, Default)]
pub struct Reservations(BTreeMap<String, (Timestamp, Vec<IpNet>)>);

impl Reservations {
    /// Parses the reservations that have not expired. Invalid entries are dropped.
    pub fn of(object: &Json, now: Timestamp) -> Self {
        let text = object.get("data").and_then(|data| data.get(FIELD)?.as_str());
        let all: BTreeMap<String, Value> =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let read = |reservation: &Value| {
            let until: Timestamp = reservation["until"].as_str()?.parse().ok()?;
            let ranges = reservation["ranges"].as_array()?.iter();
            Some((until, ranges.filter_map(|range| range.as_str()?.parse().ok()).collect::<Vec<IpNet>>()))
        };
        // Another master's clock may be ahead, but not without limit.
        let is_kept = |until: Timestamp| {
            until > now && until <= now.saturating_add(RESERVATION_TTL * 2).unwrap_or(until)
        };
        let kept = all.into_iter().filter_map(|(node, reservation)| Some((node, read(&reservation)?)));
        Self(kept.filter(|(_, (until, _))| is_kept(*until)).collect())
    }

    /// The CIDRs that are reserved for other Nodes.
    pub fn reserved_for_others<'a>(&'a self, node: &'a str) -> impl Iterator<Item = IpNet> + 'a {
        self.0
            .iter()
            .filter(move |(other, _)| *other != node)
            .flat_map(|(_, (_, ranges))| ranges.iter().copied())
    }

    /// Removes reservations of Nodes that have their CIDR.
    pub fn remove_settled(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|node, _| !is_kept(node));
    }

    /// The CIDRs that are reserved for a Node.
    pub fn reserved_for(&self, node: &str) -> &[IpNet] {
        self.0.get(node).map(|(_, ranges)| ranges.as_slice()).unwrap_or_default()
    }

    /// Reserves CIDRs for a Node, in addition to earlier reservations.
    pub fn add(&mut self, node: &str, ranges: &[IpNet], now: Timestamp) {
        let (until, reserved) = self.0.entry(node.to_owned()).or_insert_with(|| (now, Vec::new()));
        *until = now.saturating_add(RESERVATION_TTL).unwrap_or(Timestamp::MAX);
        let more: Vec<IpNet> = ranges.iter().filter(|range| !reserved.contains(range)).copied().collect();
        reserved.extend(more);
    }

    /// Writes the reservations into the ConfigMap.
    pub fn write_to(&self, mut object: Json) -> Json {
        let reservation = |(node, (until, ranges)): (&String, &(Timestamp, Vec<IpNet>))| {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            (node.clone(), json!({"until": until.to_string(), "ranges": ranges}))
        };
        let all: serde_json::Map<String, Value> = self.0.iter().map(reservation).collect();
        object.insert("data".to_owned(), json!({FIELD: Value::Object(all).to_string()}));
        object
    }

    /// Creates a ConfigMap with the reservations.
    pub fn object(&self, now: Timestamp) -> Json {
        let mut object = Json::new();
        object.insert("apiVersion".to_owned(), "v1".into());
        object.insert("kind".to_owned(), "ConfigMap".into());
        let created = api::time::seconds(now);
        object.insert(
            "metadata".to_owned(),
            json!({
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": Uuid::new_v4().to_string(),
                "creationTimestamp": created,
                "annotations": {
                    "kubernetes.io/description": "Ranges of pod addresses that were given to Nodes which are being written; kept by the masters."
                },
            }),
        );
        self.write_to(object)
    }
}
