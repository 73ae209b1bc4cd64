//! The node's serving certificate, for the node's name and its current addresses.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::access::Credentials;
use super::certificate_manager::{CertificateManager, Step};
use super::cluster_info::IssuerStatus;
use super::csr::{CertificateRequest, Kind};
use super::error::ApiError;
use super::timing;
use crate::disk;

impl CertificateManager {
    /// Carries out the next step for the serving certificate.
    pub(super) async fn sync_serving(&mut self) -> Result<Step, ApiError> {
        let now = Timestamp::now();
        // Only our own masters serve cluster info. A stock cluster signs no serving certificate before a user approves
        // it.
        let is_needed = self.settings.cluster.serving || self.authorities.borrow().is_some();
        let client = self.client.borrow_and_update().clone().filter(|_| is_needed);
        let Some(client) = client.filter(|client| !client.is_over(now)) else { return Ok(Step::Idle) };
        let files = self.files.clone();
        let Some(known) = disk::run(move || files.known()).await? else { return Ok(Step::Idle) };
        let wanted = CertificateRequest {
            kind: Kind::Serving,
            common_name: client.facts.common_name.clone(),
            dns: BTreeSet::from([self.settings.node.clone()]),
            addresses: (self.settings.addresses)().into_iter().collect(),
        };
        let held = self.held().await?.filter(|held| held.facts.common_name == wanted.common_name);
        if let Some(held) = held.clone().filter(|held| !held.is_over(now)) {
            // The old certificate is used while one for new addresses is requested, because most of its names are still
            // right.
            if self.certificate.borrow().is_none() {
                return Ok(Step::Issued(held));
            }
            let due = match self.issuer_status(&held, now) {
                IssuerStatus::Good => timing::rotation_deadline(&held, self.share),
                IssuerStatus::Retiring | IssuerStatus::Unknown => now,
            };
            if wanted.is_satisfied_by(&held.facts) && now < due {
                return Ok(Step::Sleep(due));
            }
        }
        let requested = self
            .request_certificate(
                known.with_credentials(Credentials::Certificate(client)),
                &wanted,
                held.as_deref(),
            )
            .await;
        requested.map_err(|error| self.with_files(error))
    }
}
