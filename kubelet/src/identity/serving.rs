//! The node's serving certificate, asked for by the node itself: for its name, and for its addresses as they are now.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::access::Shows;
use super::keeper::{Keeper, Step};
use super::pace;
use super::request::{Kind, Wanted};
use super::standing::Standing;
use super::trouble::Trouble;
use crate::disk;

impl Keeper {
    /// Looks at certificate and addresses and does what is due.
    pub(super) async fn serving_step(&mut self) -> Result<Step, Trouble> {
        let now = Timestamp::now();
        // Only a master of ours tells of its cluster; a stock one signs nothing of this kind before somebody approves it.
        let is_asked = self.settings.cluster.serving || self.told.borrow().is_some();
        let client = self.client.borrow_and_update().clone().filter(|_| is_asked);
        let Some(client) = client.filter(|client| !client.is_over(now)) else { return Ok(Step::Idle) };
        let files = self.files.clone();
        let Some(known) = disk::run(move || files.known()).await? else { return Ok(Step::Idle) };
        let wanted = Wanted {
            kind: Kind::Serving,
            common_name: client.facts.common_name.clone(),
            dns: BTreeSet::from([self.settings.node.clone()]),
            addresses: (self.settings.addresses)().into_iter().collect(),
        };
        let held = self.held().await?.filter(|held| held.facts.common_name == wanted.common_name);
        if let Some(held) = held.clone().filter(|held| !held.is_over(now)) {
            // Also while one for other addresses is asked for: most of its names are right.
            if self.shelf.borrow().is_none() {
                return Ok(Step::Got(held));
            }
            let due = match self.standing(&held, now) {
                Standing::Good => pace::renew_at(&held, self.share),
                Standing::Leaving | Standing::Foreign => now,
            };
            if wanted.is_met(&held.facts) && now < due {
                return Ok(Step::Rest(due));
            }
        }
        let asked = self.ask(known.showing(Shows::Certificate(client)), &wanted, held.as_deref()).await;
        asked.map_err(|trouble| self.with_files(trouble))
    }
}
