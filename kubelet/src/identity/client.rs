//! The node's client certificate. The node gets it with a join string or a bootstrap kubeconfig, and renews it with
//! the current certificate.

use std::sync::Arc;

use apiserver::auth::nodes::{PREFIX, STOCK_PREFIX};
use jiff::Timestamp;
use tokio::time::Instant;

use super::access::{ClusterAccess, Credentials};
use super::certificate::Certificate;
use super::certificate_manager::{CertificateManager, Step};
use super::cluster_info::IssuerStatus;
use super::cluster_info_refresh::Adoption;
use super::csr::{CertificateRequest, Kind, is_node};
use super::discovery::{self, Found};
use super::error::ApiError;
use super::files;
use super::timing;
use crate::disk;
use crate::options::{Bootstrap, Join};

impl CertificateManager {
    /// Carries out the next step for the client certificate and the kubeconfig.
    pub(super) async fn sync_client(&mut self) -> Result<Step, ApiError> {
        let now = Timestamp::now();
        let files = self.files.clone();
        let known = match (disk::run(move || files.known()).await?, self.settings.cluster.bootstrap.clone()) {
            (Some(known), Some(Bootstrap::Join(join))) => Some(self.check_join_string(known, &join).await?),
            (known, _) => known,
        };
        if let Some(known) = &known {
            self.write_authorities(known).await?;
        }
        let held = self.held().await?.or_else(|| known.as_ref().and_then(own));
        let held = held.filter(|held| is_node(&held.facts.common_name, &self.settings.node));
        let usable = held.clone().filter(|held| !held.is_over(now));
        match (usable, known) {
            (Some(usable), Some(known)) => self.renew(usable, known, now).await,
            // The kubelet was killed after it wrote the certificate and before it wrote the kubeconfig.
            (Some(usable), None) if self.settings.cluster.bootstrap.is_some() => {
                let (access, _) = self.bootstrap_access(None).await?;
                self.write(&access).await?;
                Ok(Step::Issued(usable))
            }
            (_, known) => self.begin(held, known).await,
        }
    }

    /// Checks the cluster info, and renews the certificate if that is due.
    async fn renew(
        &mut self,
        held: Arc<Certificate>,
        known: ClusterAccess,
        now: Timestamp,
    ) -> Result<Step, ApiError> {
        if self.certificate.borrow().is_none() {
            return Ok(Step::Issued(held));
        }
        let known = self.refresh_cluster_info(known, &held, now).await?;
        let due = match self.issuer_status(&held, now) {
            IssuerStatus::Good => timing::rotation_deadline(&held, self.share),
            IssuerStatus::Retiring => now,
            // The cluster does not accept the certificate, so it is not sent any more.
            IssuerStatus::Unknown => {
                self.shared.access.send_replace(None);
                return self.begin(Some(held), Some(known)).await;
            }
        };
        let access = known.with_credentials(Credentials::Certificate(held.clone()));
        self.shared.access.send_if_modified(|shown| {
            let is_news = shown.as_ref().is_none_or(|before| !before.is_same(&access));
            if is_news {
                *shown = Some(access.clone());
            }
            is_news
        });
        if now < due {
            self.check_access(access).await.map_err(|error| self.with_files(error))?;
            let next_request = now.saturating_add(self.retry_at.saturating_duration_since(Instant::now()));
            return Ok(Step::Sleep(next_request.unwrap_or(due).min(due)));
        }
        let wanted = CertificateRequest::client(held.facts.common_name.clone());
        let requested = self.request_certificate(access, &wanted, Some(&held)).await;
        requested.map_err(|error| self.with_files(error))
    }

    /// Requests the first certificate, or one that replaces an unusable certificate.
    async fn begin(
        &mut self,
        held: Option<Arc<Certificate>>,
        known: Option<ClusterAccess>,
    ) -> Result<Step, ApiError> {
        let (access, prefix) = self.bootstrap_access(known).await?;
        let user = format!("{prefix}{}", self.settings.node);
        let wanted = CertificateRequest::client(user);
        let requested = self.request_certificate(access.clone(), &wanted, held.as_deref()).await;
        let step =
            requested.map_err(|error| self.with_user_remedy(self.with_files(error), &access.credentials))?;
        if matches!(step, Step::Issued(_)) && self.settings.cluster.bootstrap.is_some() {
            self.write(&access).await?;
        }
        Ok(step)
    }

    /// How to reach the cluster for the first request, and the prefix of the node's user name.
    async fn bootstrap_access(
        &mut self,
        known: Option<ClusterAccess>,
    ) -> Result<(ClusterAccess, String), ApiError> {
        match self.settings.cluster.bootstrap.clone() {
            Some(Bootstrap::Kubeconfig(path)) => {
                let bootstrap = bootstrap_kubeconfig(path).await?;
                // The known CAs stay trusted. Only the credentials come from the bootstrap kubeconfig.
                let access = known.map_or_else(
                    || bootstrap.clone(),
                    |known| known.with_credentials(bootstrap.credentials.clone()),
                );
                Ok((access, STOCK_PREFIX.to_owned()))
            }
            Some(Bootstrap::Join(join)) => {
                if let Some(found) = &self.found {
                    return Ok((found.known.clone(), found.prefix.clone()));
                }
                let found = match known {
                    None => self.discover_cluster(&join).await?,
                    // The known CAs stay trusted.
                    Some(known) => {
                        let servers = merged_servers(&known, &join);
                        match discovery::refetch(&servers, &known.authority).await {
                            Ok(info) => match self.adopt_cluster_info(known, info, &servers).await? {
                                Adoption::Confirmed(known, info) => {
                                    let known = known.with_credentials(Credentials::Anonymous);
                                    Found { known, prefix: info.prefix, server_time: info.server_time }
                                }
                                // Unconfirmed cluster info is not used.
                                Adoption::Unconfirmed(known) => {
                                    return Ok((
                                        known.with_credentials(Credentials::Anonymous),
                                        PREFIX.to_owned(),
                                    ));
                                }
                            },
                            // The server is away or has moved.
                            Err(ApiError::Unreachable { .. }) => {
                                return Ok((
                                    known.with_credentials(Credentials::Anonymous),
                                    PREFIX.to_owned(),
                                ));
                            }
                            Err(error) => return Err(self.with_files(error)),
                        }
                    }
                };
                self.found = Some(found.clone());
                Ok((found.known, found.prefix))
            }
            None => {
                let missing = || {
                    let path = self.settings.cluster.kubeconfig.display().to_string();
                    ApiError::invalid(
                        path,
                        "does not exist: write it, or join with --bootstrap or --bootstrap-kubeconfig",
                    )
                };
                let known = known.ok_or_else(missing)?;
                let is_spent = self.issuer_status == IssuerStatus::Unknown
                    || own(&known).is_some_and(|own| own.is_over(Timestamp::now()));
                let access = if is_spent { known.with_credentials(Credentials::Anonymous) } else { known };
                Ok((access, STOCK_PREFIX.to_owned()))
            }
        }
    }

    /// Discovers the cluster of a join string.
    async fn discover_cluster(&mut self, join: &Join) -> Result<Found, ApiError> {
        let found = discovery::discover(&join.servers, join.pin.as_deref()).await;
        let found = found.map_err(|error| self.with_files(error))?;
        if join.pin.is_none() {
            // Without a pin, the CA is trusted on first use. It is stored at once, so that no other CA is accepted
            // after a restart.
            self.write(&found.known).await?;
        }
        tracing::info!(servers = ?found.known.servers, "found the cluster of the join string");
        if let Some(text) = found.clock_skew_warning(Timestamp::now()) {
            tracing::warn!("{text}");
        }
        Ok(found)
    }

    async fn write(&self, access: &ClusterAccess) -> Result<(), ApiError> {
        let (files, access) = (self.files.clone(), access.clone());
        disk::run(move || files.write_kubeconfig(&access)).await
    }

    pub(super) fn with_files(&self, error: ApiError) -> ApiError {
        let (kubeconfig, own) = (self.files.kubeconfig.display(), self.files.current(Kind::Client));
        let own = own.display();
        error.with_files(&format!("{kubeconfig} and {own}"))
    }

    /// Adds a remedy if the cluster no longer accepts this node's key.
    pub(super) async fn with_unregistered_remedy(&self, error: ApiError) -> ApiError {
        if !error.is_unregistered() || error.has_remedy() {
            return error;
        }
        let files = self.files.clone();
        let has_others = disk::run(move || files.shows_others()).await.unwrap_or_default();
        error.with_remedy(self.files.remedy_of_unregistered(has_others))
    }

    /// Adds a remedy if the credentials of the kubeconfig belong to a user or to another node.
    fn with_user_remedy(&self, error: ApiError, credentials: &Credentials) -> ApiError {
        let who = match credentials {
            _ if !error.has_code(403) || self.settings.cluster.bootstrap.is_some() => return error,
            Credentials::Anonymous => return error,
            Credentials::Token(_) => "a token".to_owned(),
            Credentials::Certificate(own) => format!("the certificate of {:?}", own.facts.common_name),
        };
        let (node, kubeconfig) = (&self.settings.node, self.files.kubeconfig.display());
        let minutes = timing::CLUSTER_INFO_RETRY.as_secs() / 60;
        let remedy = format!(
            "; {kubeconfig} has {who}, but a kubelet needs a certificate of {PREFIX}{node} or \
             {STOCK_PREFIX}{node}. Join with --bootstrap and the output of `master join-string`, or with \
             --bootstrap-kubeconfig; --kubeconfig must name a missing file, which the kubelet writes. The kubelet \
             retries after {minutes} minutes, or when it is restarted"
        );
        error.with_remedy(remedy).with_retry_after(timing::CLUSTER_INFO_RETRY)
    }
}

/// Reads a bootstrap kubeconfig. If the file is missing, the caller waits for it.
async fn bootstrap_kubeconfig(path: std::path::PathBuf) -> Result<ClusterAccess, ApiError> {
    disk::run(move || files::known(&path)?.ok_or(ApiError::KubeconfigMissing { path })).await
}

/// The client certificate in the kubeconfig.
fn own(known: &ClusterAccess) -> Option<Arc<Certificate>> {
    match &known.credentials {
        Credentials::Certificate(own) => Some(own.clone()),
        Credentials::Anonymous | Credentials::Token(_) => None,
    }
}

/// The known servers, followed by those of the join string.
pub(super) fn merged_servers(known: &ClusterAccess, join: &Join) -> Vec<String> {
    let others = join.servers.iter().filter(|server| !known.servers.contains(server));
    known.servers.iter().chain(others).cloned().collect()
}
