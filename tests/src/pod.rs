//! A pod as `kubelet get pods -o json` prints it, with accessors for tests.

use serde_json::Value;

/// A pod of the API.
#[derive(Clone, Debug)]
pub struct Pod(pub Value);

impl Pod {
    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// Returns `status.phase`.
    pub fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    /// Returns `status.podIP`.
    pub fn ip(&self) -> &str {
        self.text("/status/podIP")
    }

    /// Returns `status.podIPs`, with the primary one first.
    pub fn ips(&self) -> Vec<&str> {
        let all = self.0.pointer("/status/podIPs").and_then(Value::as_array);
        all.into_iter().flatten().filter_map(|ip| ip["ip"].as_str()).collect()
    }

    /// Returns the text at a JSON pointer, or an empty text if the field is missing.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or("")
    }

    /// Returns the status of a condition, or an empty text if the condition is missing.
    pub fn condition(&self, kind: &str) -> &str {
        let conditions = self.0.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind)
            .and_then(|condition| condition["status"].as_str())
            .unwrap_or("")
    }

    /// Whether condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready") == "True"
    }

    /// Returns the status of a container or init container, or null if it is missing.
    pub fn container(&self, name: &str) -> &Value {
        ["/status/containerStatuses", "/status/initContainerStatuses"]
            .iter()
            .filter_map(|list| self.0.pointer(list).and_then(Value::as_array))
            .flatten()
            .find(|status| status["name"] == name)
            .unwrap_or(&Value::Null)
    }

    /// Returns the `containerID` of a container without `docker://`.
    pub fn container_id(&self, name: &str) -> &str {
        self.container(name)["containerID"].as_str().unwrap_or("").trim_start_matches("docker://")
    }

    /// Returns the restart count of a container.
    pub fn restarts(&self, name: &str) -> i64 {
        self.container(name)["restartCount"].as_i64().unwrap_or(-1)
    }

    /// Returns the reason why a container waits, or an empty text if it does not wait.
    pub fn waiting(&self, name: &str) -> &str {
        self.container(name)["state"]["waiting"]["reason"].as_str().unwrap_or("")
    }

    /// Returns `state.terminated` of a container, or null while the container has not terminated.
    pub fn terminated(&self, name: &str) -> &Value {
        &self.container(name)["state"]["terminated"]
    }
}
