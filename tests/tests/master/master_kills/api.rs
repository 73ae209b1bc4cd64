//! The requests of writers and watchers.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tests::{DEADLINE, Master, wait_until};

/// Selects the test's objects; the master has others.
pub const ONLY: &str = "labelSelector=of%3Dkills";

/// Kinds of objects that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Durable on disk before the response.
    ConfigMap,
    /// A node lease, whose renewals may be written later.
    Lease,
}

/// Client for objects of one kind on one master, across restarts.
#[derive(Clone, Debug)]
pub struct Api {
    pub client: reqwest::Client,
    url: String,
    kind: Kind,
}

/// Content of an object: its number and resource version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub number: u64,
    pub revision: u64,
}

/// All objects at one resource version, by name.
#[derive(Clone, Debug)]
pub struct Listing {
    pub revision: u64,
    pub objects: BTreeMap<String, Held>,
}

impl Api {
    pub fn of(master: &Master, kind: Kind) -> Self {
        let path = match kind {
            Kind::ConfigMap => "/api/v1/namespaces/default/configmaps",
            Kind::Lease => "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        };
        let url = format!("https://127.0.0.1:{}{path}", master.port);
        Self { client: master.client(), url, kind }
    }

    /// An object with a number, and with a resource version if one is expected.
    pub fn object(&self, name: &str, number: u64, expected: Option<u64>) -> Value {
        let metadata = json!({"name": name, "labels": {"of": "kills"}});
        let mut object = match self.kind {
            Kind::ConfigMap => {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
                       "data": {"number": number.to_string()}})
            }
            Kind::Lease => {
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
                       "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                                "renewTime": format!("2026-01-01T00:00:00.{number:06}Z")}})
            }
        };
        if let Some(revision) = expected {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
        }
        object
    }

    pub fn url(&self, name: &str) -> String {
        if name.is_empty() { self.url.clone() } else { format!("{}/{name}", self.url) }
    }

    /// Sends a request. Returns status code and body.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Result<(u16, Value), String> {
        let response = request.send().await.map_err(|error| format!("{error:?}"))?;
        let code = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|error| format!("{error:?}"))?;
        Ok((code, serde_json::from_slice(&bytes).map_err(|error| error.to_string())?))
    }

    /// Content of an object, or `None` if it does not exist.
    pub async fn get_in_time(&self, name: &str) -> Option<Held> {
        let look = async || match self.send(self.client.get(self.url(name))).await? {
            (200, object) => Ok(Some(held(&object))),
            (404, _) => Ok(None),
            (code, body) => Err(format!("{code} {body}")),
        };
        wait_until(DEADLINE, look).await.unwrap()
    }

    pub async fn list(&self) -> Result<Listing, String> {
        let url = format!("{}?{ONLY}", self.url(""));
        let (code, list) = self.send(self.client.get(url)).await?;
        if code != 200 {
            return Err(format!("{code} {list}"));
        }
        let items = list["items"].as_array().unwrap();
        let objects = items.iter().map(|object| (name(object), held(object))).collect();
        Ok(Listing { revision: revision(&list), objects })
    }

    pub async fn list_in_time(&self) -> Listing {
        wait_until(DEADLINE, async || self.list().await).await.unwrap()
    }

    pub async fn create_in_time(&self, name: &str) {
        let look =
            async || match self.send(self.client.post(self.url("")).json(&self.object(name, 0, None))).await?
            {
                (201 | 409, _) => Ok(()),
                (code, body) => Err(format!("{code} {body}")),
            };
        wait_until(DEADLINE, look).await.unwrap();
    }
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

pub fn held(object: &Value) -> Held {
    let renewed =
        object["spec"]["renewTime"].as_str().and_then(|time| time.strip_suffix('Z')?.split_once('.'));
    let number = object["data"]["number"].as_str().or(renewed.map(|(_, micros)| micros));
    Held { number: number.and_then(|text| text.parse().ok()).unwrap_or(0), revision: revision(object) }
}

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}
