//! Reports what is not applied or not pruned: in the log, and as events about the ConfigMap of the add-ons.
//!
//! The ConfigMap names the lease holder that applied its directory last, and a digest of the objects of each file. It
//! is for people and for the next holder: a difference keeps objects, and nothing in it names an object to delete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use client::{Client, Error, Json, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::NAME;
use crate::controllers::event_recorder::{NewEvent, create_event};

/// The namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// The keys of the ConfigMap.
const HOLDER: &str = "holder";
const SINCE: &str = "since";
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// Identity of the lease holder; empty if there was none.
    pub holder: String,
    /// When the holder began to apply these files: an RFC 3339 time. It distinguishes texts that are otherwise the
    /// same.
    pub since: String,
    pub directory: String,
    /// A digest of the objects of each file. `None` while they are not confirmed.
    pub files: Option<BTreeMap<String, String>>,
}

impl Status {
    /// The files that differ between this holder and another one. `None` if that is unknown.
    pub fn differences(&self, files: &BTreeMap<String, String>) -> Option<Vec<String>> {
        let known = self.files.as_ref()?;
        let names: BTreeSet<&String> = known.keys().chain(files.keys()).collect();
        let differs = |name: &&String| known.get(*name) != files.get(*name);
        Some(names.into_iter().filter(differs).cloned().collect())
    }

    fn read(config_map: &Json) -> Self {
        let text = |key: &str| {
            let value = config_map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let files = serde_json::from_str(&text(FILES)).ok();
        Self { holder: text(HOLDER), since: text(SINCE), directory: text(DIRECTORY), files }
    }
}

impl Recorder {
    /// Reads the ConfigMap. `None` if there is none.
    ///
    /// # Errors
    /// If it is unknown what the last holder applied. The caller retries.
    pub async fn status(&mut self, client: &Client) -> Result<Option<Status>, Error> {
        self.status = client.find(&Kind::CONFIG_MAP, NAMESPACE, NAME).await?;
        Ok(self.status.as_ref().map(Status::read))
    }

    /// Writes the ConfigMap that was read, or creates it.
    ///
    /// # Errors
    /// If it cannot be written, or was written by others since. The caller reads it again.
    pub async fn set_status(&mut self, client: &Client, status: &Status) -> Result<(), Error> {
        let mut data = json!({HOLDER: status.holder, SINCE: status.since, DIRECTORY: status.directory});
        if let Some(files) = &status.files {
            data[FILES] = json!(files).to_string().into();
        }
        let written = match self.status.take() {
            Some(mut json) => {
                json.insert("data".to_owned(), data);
                client.update(&Kind::CONFIG_MAP, "", json).await?
            }
            None => {
                let metadata = json!({"name": NAME});
                let new =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
                client.create(&Kind::CONFIG_MAP, NAMESPACE, new).await?
            }
        };
        self.status = Some(written);
        Ok(())
    }

    /// Logs new reports, and records them as events. A report whose event fails is new again in the next pass.
    pub async fn record(&mut self, client: &Client, directory: &Path, mut reports: Reports) {
        let metadata = self.status.as_ref().and_then(|json| json.get("metadata"));
        let uid =
            metadata.and_then(|metadata| metadata.get("uid")).and_then(Value::as_str).unwrap_or_default();
        let mut failed = Vec::new();
        for (number, report) in reports.difference(&self.recorded).enumerate() {
            let ((subject, message), directory) = (report, directory.display());
            let reason = subject.reason();
            tracing::warn!(%directory, reason, message, "add-ons need attention");
            if number >= MAX_EVENTS {
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
            if let Err(error) = create_event(client, event).await {
                tracing::debug!(reason, %error, "cannot record an event");
                failed.push(report.clone());
            }
        }
        for report in &failed {
            reports.remove(report);
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
