//! A client that writes all the time, and remembers the acknowledged writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tests::Master;
use tokio::task::JoinHandle;

use crate::cluster_faults::cluster::{MAPS, PATIENCE};

/// The interval between two writes.
const PACE: Duration = Duration::from_millis(200);

/// Checks that a list contains all writes that were acknowledged before its request.
///
/// # Errors
/// If there is no list. A missing write fails the test.
pub fn has_all(list: &Value, acknowledged: &BTreeMap<String, String>) -> Result<(), String> {
    let items = list["items"].as_array().ok_or("no list of ConfigMaps")?;
    let found = items.iter().map(|map| (map["metadata"]["name"].as_str(), map["data"]["value"].as_str()));
    let found: BTreeMap<_, _> = found.collect();
    for (name, value) in acknowledged {
        assert_eq!(found.get(&Some(name.as_str())), Some(&Some(value.as_str())), "{name} was acknowledged");
    }
    Ok(())
}

/// The writing client; it ends when it is dropped.
pub struct Writer {
    acknowledged: Arc<Mutex<BTreeMap<String, String>>>,
    task: JoinHandle<()>,
}

impl Writer {
    /// Writes one ConfigMap after another to a master until the value is dropped.
    pub fn start(master: &Master) -> Self {
        let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
        let (noted, url) = (acknowledged.clone(), master.url(MAPS));
        let mut client = master.client();
        let admin = master.admin().unwrap();
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            for number in 0_u32.. {
                pace.tick().await;
                let (name, value) = (format!("note-{number}"), format!("value {number}"));
                let map =
                    json!({"metadata": {"name": name, "labels": {"by": "writer"}}, "data": {"value": value}});
                match client.post(&url).json(&map).timeout(PATIENCE).send().await {
                    Ok(answer) if answer.status() == 201 => {
                        noted.lock().unwrap().insert(name, value);
                    }
                    Ok(_) => {}
                    Err(_) => {
                        let own = (admin.credentials.certificates.as_str(), admin.credentials.key.as_str());
                        client = tests::trusting(&admin.authority, Some(own)).unwrap();
                    }
                }
            }
        });
        Self { acknowledged, task }
    }

    /// Stops writing and forgets all acknowledged writes, so that a restored backup contains all that is expected.
    pub fn stop(&self) {
        self.task.abort();
        self.acknowledged.lock().unwrap().clear();
    }

    /// The writes acknowledged so far.
    pub fn acknowledged(&self) -> BTreeMap<String, String> {
        self.acknowledged.lock().unwrap().clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
