//! Reports what is not applied or not pruned: in the log, and as events about the ConfigMap of the add-ons.
//!
//! The ConfigMap names the lease holder that applied its directory last, and a digest of the objects of each file. It is
//! for people and for the next holder, which compares its own files. No object is deleted because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use client::{Client, Error, Json, Kind};
use serde_json::{Value, json};

use super::NAME;
use crate::controllers::event_recorder::{NewEvent, record_event};

/// The namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// The keys of the ConfigMap.
const HOLDER: &str = "holder";
const DIRECTORY: &str = "directory";
const FILES: &str = "files.json";
/// The most events of one pass. The log has all reports.
const MAX_EVENTS: usize = 32;
/// The most files that a report names.
const MAX_NAMED: usize = 10;

/// What a report is about; the reason of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A directory, file or object is not applied.
    NotApplied,
    /// An object without a manifest stays, on purpose or because of an error.
    NotPruned,
    /// The previous lease holder had other files.
    Differs,
}

impl Subject {
    fn reason(self) -> &'static str {
        match self {
            Self::NotApplied => "AddonNotApplied",
            Self::NotPruned => "AddonNotPruned",
            Self::Differs => "AddonDirectoriesDiffer",
        }
    }
}

/// The reports of one pass.
pub type Reports = BTreeSet<(Subject, String)>;

/// Records each report once, until it is over.
#[derive(Debug, Default)]
pub struct Recorder {
    recorded: Reports,
    /// The ConfigMap, once it was read.
    status: Option<Json>,
}

/// What the ConfigMap says about the last pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Identity of the lease holder; empty if there was none.
    pub holder: String,
    pub directory: String,
    /// A digest of the objects of each file.
    pub files: BTreeMap<String, String>,
}

impl Status {
    /// The files that differ between the last holder, if it is another one, and this one.
    pub fn differences(&self, holder: &str, files: &BTreeMap<String, String>) -> Vec<String> {
        if self.holder.is_empty() || self.holder == holder {
            return Vec::new();
        }
        let names: BTreeSet<&String> = self.files.keys().chain(files.keys()).collect();
        let differs = |name: &&String| self.files.get(*name) != files.get(*name);
        names.into_iter().filter(differs).cloned().collect()
    }

    fn read(config_map: &Json) -> Self {
        let text = |key: &str| {
            let value = config_map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let files = serde_json::from_str(&text(FILES)).unwrap_or_default();
        Self { holder: text(HOLDER), directory: text(DIRECTORY), files }
    }
}

impl Recorder {
    /// Reads the ConfigMap, and creates it if there is none.
    ///
    /// # Errors
    /// If it is unknown what the last holder applied. The caller retries.
    pub async fn status(&mut self, client: &Client) -> Result<Status, Error> {
        let json = match client.find(&Kind::CONFIG_MAP, NAMESPACE, NAME).await? {
            Some(json) => json,
            None => {
                let new = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}});
                client.create(&Kind::CONFIG_MAP, NAMESPACE, new).await?
            }
        };
        Ok(Status::read(self.status.insert(json)))
    }

    /// Writes the ConfigMap if it says something else.
    ///
    /// # Errors
    /// If it cannot be written. The caller reads it again.
    pub async fn set_status(&mut self, client: &Client, status: &Status) -> Result<(), Error> {
        if self.status.as_ref().is_some_and(|json| Status::read(json) == *status) {
            return Ok(());
        }
        self.status(client).await?;
        let mut json = self.status.take().unwrap_or_default();
        let files = json!(status.files).to_string();
        let data = json!({HOLDER: status.holder, DIRECTORY: status.directory, FILES: files});
        json.insert("data".to_owned(), data);
        self.status = Some(client.update(&Kind::CONFIG_MAP, "", json).await?);
        Ok(())
    }

    /// Logs new reports, and records them as events.
    pub async fn record(&mut self, client: &Client, directory: &Path, reports: Reports) {
        let metadata = self.status.as_ref().and_then(|json| json.get("metadata"));
        let uid =
            metadata.and_then(|metadata| metadata.get("uid")).and_then(Value::as_str).unwrap_or_default();
        let mut events = 0;
        for (subject, message) in reports.difference(&self.recorded) {
            let (reason, directory) = (subject.reason(), directory.display());
            tracing::warn!(%directory, reason, message, "add-ons need attention");
            events += 1;
            if events > MAX_EVENTS {
                continue;
            }
            let message = &format!("{directory}: {message}");
            let event = NewEvent {
                kind: &Kind::CONFIG_MAP,
                namespace: NAMESPACE,
                name: NAME,
                uid,
                is_warning: true,
                reason,
                message,
                component: NAME,
            };
            record_event(client, event).await;
        }
        self.recorded = reports;
    }

    /// The reports that are not over.
    #[cfg(test)]
    pub fn recorded(&self) -> Vec<&str> {
        self.recorded.iter().map(|(_, message)| message.as_str()).collect()
    }
}

/// The names in a list for a message.
pub fn named(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
    let rest = names.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
