//! Takes the lease over from another master, whose directory may name other objects.
//!
//! A master says in the ConfigMap what it applies, before it does, and remembers in its inventory what it said. If it
//! finds another text there, another master may have applied the objects of the inventory since. Objects that are then
//! absent here are forgotten, and remain, unless that master had the same files.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::inventory::{Inventory, Record};
use super::plan::Plan;
use super::report::{Reports, Status, Subject, named};
use super::{Addons, remaining};

impl Addons {
    /// Publishes that this master applies other objects than the ConfigMap says, before it does. `sets` are the digests
    /// of its files.
    pub async fn announce(
        &mut self,
        sets: &BTreeMap<String, String>,
        inventory: &mut Inventory,
    ) -> Result<(), String> {
        let found = self.recorder.status(&self.client).await.map_err(|error| error.full_message())?;
        let own = inventory.record.as_ref().filter(|record| found.as_ref() == Some(&record.status));
        if own.is_some_and(|own| own.status.files.as_ref().is_none_or(|files| files == sets)) {
            return Ok(());
        }
        // Without earlier objects there is nothing that this master could delete by mistake.
        let is_trusted = own.map_or(inventory.objects.is_empty(), |own| own.is_trusted);
        if own.is_none() {
            self.previous = found;
        }
        let status = Status {
            holder: self.identity.clone(),
            since: Timestamp::now().to_string(),
            directory: self.directory.display().to_string(),
            files: None,
        };
        self.publish(Record { status, is_trusted }, inventory).await
    }

    async fn publish(&mut self, record: Record, inventory: &mut Inventory) -> Result<(), String> {
        let published = self.recorder.set_status(&self.client, &record.status).await;
        published.map_err(|error| error.full_message())?;
        inventory.record = Some(record);
        self.save(inventory).await
    }

    /// Publishes the confirmed files. If another master may have applied other ones since, objects that no file here
    /// names are removed from the inventory, so that they remain.
    pub async fn compare(
        &mut self,
        plan: &Plan<'_>,
        sets: &BTreeMap<String, String>,
        inventory: &mut Inventory,
        reports: &mut Reports,
    ) -> Result<(), String> {
        let Some(record) = inventory.record.clone() else { return Ok(()) };
        if record.is_trusted && record.status.files.as_ref() == Some(sets) {
            return Ok(());
        }
        let previous = self.previous.take().filter(|previous| previous.holder != self.identity);
        let differences = previous.as_ref().and_then(|previous| previous.differences(sets));
        let is_equal = differences.as_ref().is_some_and(Vec::is_empty);
        let count = if record.is_trusted { 0 } else { plan.absent(inventory).len() };
        let text = match (previous, differences) {
            (Some(previous), Some(differences)) if !differences.is_empty() => {
                let (holder, names) = (previous.holder, named(&differences));
                Some(format!(
                    "the directory differs from that of {holder} in {names}; objects without a manifest remain"
                ))
            }
            (Some(previous), None) if count > 0 => {
                Some(remaining(count, &format!("it is unknown which files {} applied", previous.holder)))
            }
            (None, _) if count > 0 => {
                Some(remaining(count, "the ConfigMap kube-system/coracle-addons is missing or was changed"))
            }
            _ => None,
        };
        reports.extend(text.map(|text| (Subject::Differs, text)));
        if count > 0 && !is_equal {
            inventory.objects.retain(|key, _| plan.names(key));
            // Before the record is trusted again.
            self.save(inventory).await?;
        }
        let status = Status { files: Some(sets.clone()), ..record.status };
        self.publish(Record { status, is_trusted: true }, inventory).await
    }
}
