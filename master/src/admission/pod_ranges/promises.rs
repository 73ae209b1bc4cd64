//! Ranges that were given to Nodes which are not written yet, as they stand in a ConfigMap. Pure.

use std::collections::BTreeMap;

use api::strategy::Json;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

/// The kind of the object in the store, and where it lies.
pub const RESOURCE: &str = "configmaps";
/// Its namespace.
pub const NAMESPACE: &str = "kube-system";
/// Its name.
pub const NAME: &str = "pod-ranges-promised";
/// The one text in it.
const FIELD: &str = "promises";
/// How long a range is kept for a Node that does not appear: no request takes longer, nor a store that is asked by one and answers
/// after it.
const KEPT: SignedDuration = SignedDuration::from_secs(90);

/// What is promised to which Node, and until when that is kept.
#[derive(Debug, Default)]
pub struct Promises(BTreeMap<String, (Timestamp, Vec<IpNet>)>);

impl Promises {
    /// Those in the object that are kept still. One that does not read is none: somebody has written it by hand.
    pub fn of(object: &Json, now: Timestamp) -> Self {
        let text = object.get("data").and_then(|data| data.get(FIELD)?.as_str());
        let all: BTreeMap<String, Value> =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let read = |promise: &Value| {
            let until: Timestamp = promise["until"].as_str()?.parse().ok()?;
            let ranges = promise["ranges"].as_array()?.iter();
            Some((until, ranges.filter_map(|range| range.as_str()?.parse().ok()).collect::<Vec<IpNet>>()))
        };
        // The clock of another master may be ahead, and not for ever.
        let is_kept =
            |until: Timestamp| until > now && until <= now.saturating_add(KEPT * 2).unwrap_or(until);
        let kept = all.into_iter().filter_map(|(node, promise)| Some((node, read(&promise)?)));
        Self(kept.filter(|(_, (until, _))| is_kept(*until)).collect())
    }

    /// The ranges of all but that node.
    pub fn to_others<'a>(&'a self, node: &'a str) -> impl Iterator<Item = IpNet> + 'a {
        self.0
            .iter()
            .filter(move |(other, _)| *other != node)
            .flat_map(|(_, (_, ranges))| ranges.iter().copied())
    }

    /// Takes out what is kept, since its Node is there with a range.
    pub fn forget(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|node, _| !is_kept(node));
    }

    /// What that node was promised already.
    pub fn to(&self, node: &str) -> &[IpNet] {
        self.0.get(node).map(|(_, ranges)| ranges.as_slice()).unwrap_or_default()
    }

    /// Promises ranges to a node, beside those that it may be written with at this moment elsewhere.
    pub fn add(&mut self, node: &str, ranges: &[IpNet], now: Timestamp) {
        let (until, promised) = self.0.entry(node.to_owned()).or_insert_with(|| (now, Vec::new()));
        *until = now.saturating_add(KEPT).unwrap_or(Timestamp::MAX);
        let more: Vec<IpNet> = ranges.iter().filter(|range| !promised.contains(range)).copied().collect();
        promised.extend(more);
    }

    /// The object, with these in it.
    pub fn written(&self, mut object: Json) -> Json {
        let promise = |(node, (until, ranges)): (&String, &(Timestamp, Vec<IpNet>))| {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            (node.clone(), json!({"until": until.to_string(), "ranges": ranges}))
        };
        let all: serde_json::Map<String, Value> = self.0.iter().map(promise).collect();
        object.insert("data".to_owned(), json!({FIELD: Value::Object(all).to_string()}));
        object
    }

    /// A new object, with these in it.
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
        self.written(object)
    }
}
