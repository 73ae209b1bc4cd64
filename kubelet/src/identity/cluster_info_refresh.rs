//! Refreshes the cluster info of a joined node. The node then trusts a new CA before the old one retires, and finds
//! new servers. Only a connection to a trusted server can change what the node trusts.

use std::sync::Arc;
use std::time::Duration;

use client::backoff::random_share;
use jiff::Timestamp;
use tokio::time::Instant;

use super::access::ClusterAccess;
use super::api::Api;
use super::certificate::Certificate;
use super::certificate_manager::CertificateManager;
use super::client::merged_servers;
use super::cluster_info::{ClusterInfo, IssuerStatus, PATH};
use super::csr::Kind;
use super::discovery;
use super::error::ApiError;
use super::timing;
use crate::disk;
use crate::options::Join;

/// Result of adopting cluster info.
#[derive(Debug)]
pub(super) enum Adoption {
    /// The cluster info was confirmed and adopted.
    Confirmed(ClusterAccess, ClusterInfo),
    /// The cluster info could not be confirmed. The known access stays in use.
    Unconfirmed(ClusterAccess),
}

impl CertificateManager {
    /// Reads the cluster info if that is due, and returns the access afterwards.
    pub(super) async fn refresh_cluster_info(
        &mut self,
        known: ClusterAccess,
        held: &Certificate,
        now: Timestamp,
    ) -> Result<ClusterAccess, ApiError> {
        if Instant::now() < self.retry_at {
            return Ok(known);
        }
        let servers = known.servers.clone();
        let fetched = discovery::refetch(&servers, &known.authority).await;
        let soon = |pause: Duration| pause.min(timing::CLUSTER_INFO_RETRY);
        let pause = timing::cluster_info_delay(held, random_share());
        let pause = match &fetched {
            Ok(_) => pause,
            // A stock API server does not serve cluster info.
            Err(error) if has_no_cluster_info(error) => pause,
            Err(ApiError::Rejected { .. } | ApiError::TooLarge { .. } | ApiError::Invalid { .. }) => {
                soon(pause)
            }
            // Other requests to this server would fail too.
            Err(error) => return Err(self.with_files(error.clone())),
        };
        let (known, pause) = match fetched {
            // If the kubeconfig could not be written, the next turn reads the cluster info again.
            Ok(info) => match self.adopt_cluster_info(known, info, &servers).await? {
                Adoption::Confirmed(known, _) => (known, pause),
                Adoption::Unconfirmed(known) => (known, soon(pause)),
            },
            Err(error) if has_no_cluster_info(&error) => (known, pause),
            Err(error) => {
                let text = format!("cannot use the cluster info: {error}");
                self.reporter.warn("ClusterInfoFailed", text, now);
                (known, pause)
            }
        };
        self.retry_at = Instant::now() + pause;
        Ok(known)
    }

    /// Adopts cluster info: confirms changes with the servers that were known before, not with those that it names,
    /// and writes the kubeconfig.
    pub(super) async fn adopt_cluster_info(
        &mut self,
        known: ClusterAccess,
        info: ClusterInfo,
        fetched: &[String],
    ) -> Result<Adoption, ApiError> {
        let invalid = |why| ApiError::invalid(format!("the cluster info of {PATH}"), why);
        let (info, updated) = match known.updated_by(&info).map_err(invalid)? {
            None => (info, None),
            Some(_) => match discovery::confirm(&known, info, fetched).await {
                Ok(info) => {
                    let updated = known.updated_by(&info).map_err(invalid)?;
                    (info, updated)
                }
                Err(error) => {
                    let (kubeconfig, own) =
                        (self.files.kubeconfig.display(), self.files.current(Kind::Client));
                    let own = own.display();
                    let text = format!(
                        "ignoring cluster info with other CAs or servers, which cannot be confirmed: {error}. The \
                         known CAs and servers stay in use. If a former CA was restored (with a backup of `pki`), \
                         remove {kubeconfig} and {own}, and join with the output of `master join-string`"
                    );
                    self.reporter.warn("ClusterInfoUnconfirmed", text, Timestamp::now());
                    return Ok(Adoption::Unconfirmed(known));
                }
            },
        };
        let authorities = Some(Arc::new(info.authorities().map_err(invalid)?));
        let Some(updated) = updated else {
            self.shared.authorities.send_replace(authorities);
            return Ok(Adoption::Confirmed(known, info));
        };
        // Access that cannot be used is not stored.
        Api::new(&updated)?;
        let (files, access) = (self.files.clone(), updated.clone());
        if !disk::run(move || files.rewrite_kubeconfig(&access)).await? {
            if !known.has_same_endpoints(&updated) {
                let path = self.files.kubeconfig.display();
                let text = format!(
                    "the cluster has other CAs or servers than {path}, which the kubelet did not write: update it; each \
                     ConfigMap kube-root-ca.crt has the CAs"
                );
                self.reporter.warn("ClusterChanged", text, Timestamp::now());
            }
            self.shared.authorities.send_replace(authorities);
            return Ok(Adoption::Confirmed(known, info));
        }
        self.write_authorities(&updated).await?;
        self.shared.authorities.send_replace(authorities);
        let hashes = updated.hashes().join(" and sha256:");
        let servers = updated.servers.join(", ");
        let text =
            format!("the cluster info changed: the CAs are sha256:{hashes}, the servers are {servers}");
        self.reporter.info_once("ClusterChanged", text, Timestamp::now());
        Ok(Adoption::Confirmed(updated, info))
    }

    /// Checks that the known cluster is that of the join string: it has the pinned CA, had it before, or names it
    /// now.
    pub(super) async fn check_join_string(
        &mut self,
        known: ClusterAccess,
        join: &Join,
    ) -> Result<ClusterAccess, ApiError> {
        let Some(pin) =
            join.pin.as_ref().filter(|pin| !self.is_join_string_checked && !known.is_pinned_by(pin))
        else {
            return Ok(known);
        };
        let servers = merged_servers(&known, join);
        match discovery::refetch(&servers, &known.authority).await {
            Ok(info) if info.is_pinned_by(pin) => match self.adopt_cluster_info(known, info, &servers).await?
            {
                Adoption::Confirmed(known, info) if info.is_pinned_by(pin) => {
                    self.is_join_string_checked = true;
                    Ok(known)
                }
                Adoption::Confirmed(..) | Adoption::Unconfirmed(_) => {
                    let path = self.settings.cluster.kubeconfig.display().to_string();
                    let why = "may belong to another cluster than --bootstrap: the cluster info claims that it is \
                         the same cluster, but this cannot be confirmed";
                    Err(ApiError::invalid(path, why))
                }
            },
            Err(error) if !has_no_cluster_info(&error) => Err(self.with_files(error)),
            Ok(_) | Err(_) => {
                let path = self.settings.cluster.kubeconfig.display().to_string();
                let own = self.files.current(Kind::Client);
                let own = own.display();
                let why = format!(
                    "belongs to another cluster than --bootstrap: to join the cluster of --bootstrap, remove this \
                     file and {own}"
                );
                Err(ApiError::invalid(path, why))
            }
        }
    }

    /// The status of the certificate's issuer. It is computed once per update of the CAs, so that each update
    /// causes at most one request for a new certificate.
    pub(super) fn issuer_status(&mut self, held: &Certificate, now: Timestamp) -> IssuerStatus {
        let Some(authorities) = self.authorities.borrow_and_update().clone() else {
            return self.issuer_status;
        };
        if self.judged.as_ref().is_some_and(|judged| Arc::ptr_eq(judged, &authorities)) {
            return self.issuer_status;
        }
        self.issuer_status = authorities.issuer_status(held, self.kind);
        self.judged = Some(authorities);
        let words = self.kind.words();
        match self.issuer_status {
            IssuerStatus::Good => {}
            IssuerStatus::Retiring => {
                let text = format!("the {words} of this node is signed by a retiring CA: it is renewed now");
                self.reporter.info_once("CertificateIssuerRetiring", text, now);
            }
            IssuerStatus::Unknown => {
                let text = format!(
                    "the {words} of this node is signed by no CA of its cluster: another one is requested"
                );
                self.reporter.warn("CertificateIssuerUnknown", text, now);
            }
        }
        self.issuer_status
    }

    /// Writes the CAs for client certificates; the kubelet's own server watches the file.
    pub(super) async fn write_authorities(&self, known: &ClusterAccess) -> Result<(), ApiError> {
        let (files, authority) = (self.files.clone(), known.authority.clone());
        disk::run(move || files.write_authorities(&authority)).await
    }
}

/// Whether the server rejects the request for the cluster info, or does not know its path.
fn has_no_cluster_info(error: &ApiError) -> bool {
    [401, 403, 404].into_iter().any(|code| error.has_code(code))
}
