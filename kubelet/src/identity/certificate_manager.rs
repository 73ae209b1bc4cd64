//! Certificate manager: obtains and renews one certificate of the node. Each iteration of its loop checks the
//! state, carries out the step that is due, and waits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::random_share;
use jiff::Timestamp;
use rcgen::PublicKeyData as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::{ClusterAccess, Credentials};
use super::api::Api;
use super::certificate::Certificate;
use super::cluster_info::{Authorities, IssuerStatus};
use super::csr::{CertificateRequest, CsrStatus, Kind, PATH};
use super::discovery::Found;
use super::error::ApiError;
use super::event_reporter::EventReporter;
use super::files::Files;
use super::{Settings, timing};
use crate::disk;
use crate::file_watch::{self, FileWatcher};

/// How often the state is checked without an event. The clock may have been set, the machine suspended, or an
/// address changed.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Delay between a watch event and the read of the CSR, because events come in groups.
const EVENT_SETTLE_DELAY: Duration = Duration::from_millis(200);
/// Longest `Retry-After` that the kubelet honours.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Publishes the current certificate.
pub type CertificateSender = watch::Sender<Option<Arc<Certificate>>>;

/// State that the two certificate managers share with each other and with the rest of the kubelet.
#[derive(Debug)]
pub struct SharedState {
    /// The CAs of the cluster, set each time the cluster info is read.
    pub authorities: watch::Sender<Option<Arc<Authorities>>>,
    /// How to reach the API server as this node.
    pub access: watch::Sender<Option<ClusterAccess>>,
}

/// Manages one certificate of the node.
pub struct CertificateManager {
    pub(super) settings: Arc<Settings>,
    pub(super) files: Files,
    pub(super) kind: Kind,
    /// Publishes the certificate.
    pub(super) certificate: CertificateSender,
    /// The node's client certificate, which authenticates requests for a serving certificate.
    pub(super) client: watch::Receiver<Option<Arc<Certificate>>>,
    /// The cluster of the join string, once it is discovered.
    pub(super) found: Option<Found>,
    /// Whether the kubeconfig is known to belong to the cluster of the join string.
    pub(super) is_join_string_checked: bool,
    /// State shared with the other manager.
    pub(super) shared: Arc<SharedState>,
    /// Receives the CAs of [`SharedState`].
    pub(super) authorities: watch::Receiver<Option<Arc<Authorities>>>,
    /// The CAs for which `issuer_status` was computed.
    pub(super) judged: Option<Arc<Authorities>>,
    pub(super) issuer_status: IssuerStatus,
    /// When the cluster info is read again.
    pub(super) retry_at: Instant,
    /// Whether an API server has answered a request of this node.
    pub(super) is_access_checked: bool,
    /// Consecutive failures.
    pub(super) failures: u32,
    /// Position of the rotation deadline between its earliest (0) and latest time (1).
    pub(super) share: f64,
    pub(super) reporter: EventReporter,
    polls: u32,
    session: Option<(ClusterAccess, Arc<Api>)>,
}

/// Result of one iteration of the loop.
#[derive(Debug)]
pub enum Step {
    /// Nothing is due before this time.
    Sleep(Timestamp),
    /// Nothing is due before the node has a client certificate.
    Idle,
    /// A certificate was issued.
    Issued(Arc<Certificate>),
    /// The CSR waits for its approver or signer.
    Pending(PendingRequest),
}

/// A CSR without a certificate yet.
#[derive(Debug)]
pub struct PendingRequest {
    name: String,
    version: String,
    is_refused: bool,
    text: String,
}

impl CertificateManager {
    /// Creates a manager for this kind of certificate.
    pub fn new(
        settings: &Arc<Settings>,
        kind: Kind,
        certificate: CertificateSender,
        client: watch::Receiver<Option<Arc<Certificate>>>,
        shared: &Arc<SharedState>,
        reporter: EventReporter,
    ) -> Self {
        let files =
            Files { cert_dir: settings.cert_dir.clone(), kubeconfig: settings.cluster.kubeconfig.clone() };
        Self {
            settings: settings.clone(),
            files,
            kind,
            certificate,
            client,
            found: None,
            is_join_string_checked: false,
            shared: shared.clone(),
            authorities: shared.authorities.subscribe(),
            judged: None,
            issuer_status: IssuerStatus::Good,
            retry_at: Instant::now(),
            is_access_checked: false,
            failures: 0,
            share: random_share(),
            reporter,
            polls: 0,
            session: None,
        }
    }

    /// Manages the certificate until the kubelet stops.
    pub async fn run(mut self) {
        loop {
            let step = match self.kind {
                Kind::Client => self.sync_client().await,
                Kind::Serving => self.sync_serving().await,
            };
            let now = Timestamp::now();
            match step {
                Ok(step) => {
                    self.failures = 0;
                    self.after(step, now).await;
                }
                Err(ApiError::KubeconfigMissing { path }) => {
                    let text = format!(
                        "this node joins with {}, which does not exist yet. A master on this machine writes it \
                         when it starts, except with --csr-approval-policy always-reject: use another policy, or \
                         start the kubelet with --kubeconfig and a certificate for this node (docs/static.md). \
                         Static pods run meanwhile",
                        path.display()
                    );
                    self.reporter.info_once("WaitingForBootstrap", text, now);
                    wait_for_path(&path, RESYNC_INTERVAL).await;
                }
                Err(error) => {
                    let error = self.with_unregistered_remedy(error).await;
                    let words = self.kind.words();
                    self.reporter.warn(
                        "CertificateRequestFailed",
                        format!("the {words} of this node: {error}"),
                        now,
                    );
                    self.session = None;
                    self.found = None;
                    let pause = timing::retry_delay(&error, self.failures, MAX_RETRY_AFTER, random_share());
                    self.failures = self.failures.saturating_add(1);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Carries out a step, and waits until the next step is due.
    async fn after(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Sleep(until) => {
                self.polls = 0;
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                // New CAs may end the certificate before it expires.
                let _ = tokio::time::timeout(left.min(RESYNC_INTERVAL), self.authorities.changed()).await;
            }
            // The sender lives as long as this task.
            Step::Idle => tokio::select! {
                _ = self.client.changed() => {}
                _ = self.authorities.changed() => {}
                () = tokio::time::sleep(RESYNC_INTERVAL) => {}
            },
            Step::Issued(new) => {
                self.polls = 0;
                self.install(new);
            }
            Step::Pending(waiting) => self.wait(waiting, now).await,
        }
    }

    /// Waits until the CSR changes. If the node has credentials, it watches the CSR, otherwise it polls.
    async fn wait(&mut self, waiting: PendingRequest, now: Timestamp) {
        let PendingRequest { name, version, is_refused, text } = waiting;
        // Most renewals are approved automatically, before there is anything to report or to watch.
        let is_first = self.polls == 0;
        if is_refused {
            self.reporter.warn("CertificateDenied", text, now);
        } else if !is_first {
            self.reporter.info_once("CertificateRequested", text, now);
        }
        let pause = if is_refused {
            timing::denied_csr_poll_delay(self.polls, random_share())
        } else {
            timing::csr_poll_delay(self.polls, random_share())
        };
        self.polls = self.polls.saturating_add(1);
        let began = Instant::now();
        if let Some((known, api)) = &self.session
            && !is_first
            && !matches!(known.credentials, Credentials::Anonymous)
            && let Ok(has_changed) = api.wait_for_csr_change(&name, &version).await
        {
            // Limits the rate against a server that ends every watch at once or sends events all the time.
            let left = if has_changed {
                pause.min(EVENT_SETTLE_DELAY)
            } else {
                pause.saturating_sub(began.elapsed())
            };
            return tokio::time::sleep(left).await;
        }
        tokio::time::sleep(pause).await;
    }

    /// Uses and reports a new certificate.
    pub(super) fn install(&mut self, new: Arc<Certificate>) {
        self.share = random_share();
        // A new certificate may come from a master with newer cluster info, which is then read at once. If the
        // certificate was requested because of new cluster info, another master may have signed it with the same CA
        // again. Then there is a pause before the next attempt.
        let pause = match self.issuer_status {
            IssuerStatus::Good => Duration::ZERO,
            IssuerStatus::Retiring | IssuerStatus::Unknown => {
                timing::cluster_info_delay(&new, random_share()).min(timing::CLUSTER_INFO_RETRY)
            }
        };
        self.retry_at = Instant::now() + pause;
        self.issuer_status = IssuerStatus::Good;
        // If the node must bootstrap again, it uses the access that it has learned since.
        self.found = None;
        let until = Timestamp::from_second(new.facts.until).unwrap_or(Timestamp::MAX);
        let due = timing::rotation_deadline(&new, self.share);
        let words = self.kind.words();
        let text = format!("the {words} of this node is valid until {until}; it is renewed at {due}");
        self.reporter.info("CertificateInUse", text);
        self.certificate.send_replace(Some(new));
    }

    /// The certificate in use, or the one on disk.
    pub(super) async fn held(&self) -> Result<Option<Arc<Certificate>>, ApiError> {
        if let Some(held) = self.certificate.borrow().clone() {
            return Ok(Some(held));
        }
        let (files, kind) = (self.files.clone(), self.kind);
        Ok(disk::run(move || files.certificate(kind)).await?.map(Arc::new))
    }

    /// Requests a certificate with a CSR, or checks the existing CSR.
    pub(super) async fn request_certificate(
        &mut self,
        known: ClusterAccess,
        wanted: &CertificateRequest,
        spent: Option<&Certificate>,
    ) -> Result<Step, ApiError> {
        let (files, kind) = (self.files.clone(), self.kind);
        let spent = spent.map(|spent| spent.facts.key_info.clone());
        let key = disk::run(move || files.key(kind, spent.as_deref())).await?;
        let api = self.api(known)?;
        let name = wanted.name(&key);
        let object = match api.get(&format!("{PATH}/{name}")).await {
            Err(error) if error.has_code(404) => {
                let object = wanted.object(&key).map_err(|why| ApiError::invalid("the node's name", why))?;
                api.post(PATH, &object).await?
            }
            found => found?,
        };
        let text = match CsrStatus::of(&object) {
            CsrStatus::Signed(chain) => {
                let now = Timestamp::now();
                let files = self.files.clone();
                let pem = key.serialize_pem();
                let read = accept(&chain, &pem, wanted, &key.subject_public_key_info(), now);
                let Ok(certificate) = read else {
                    disk::run(move || files.forget_key(kind)).await?;
                    let why = read.err().unwrap_or_default();
                    let what = format!("the certificate of the request {name}");
                    return Err(ApiError::invalid(
                        what,
                        format!("{why}; requesting another one with a new key"),
                    ));
                };
                disk::run(move || files.keep(kind, &chain, &pem)).await?;
                return Ok(Step::Issued(Arc::new(certificate)));
            }
            status => request_message(&status, wanted, &name, api.server()),
        };
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let (text, is_refused) = text;
        Ok(Step::Pending(PendingRequest { name, version, is_refused, text }))
    }

    /// Sends a request to the API server. An untrusted or rejecting server is thus reported early, not at the next
    /// rotation.
    pub(super) async fn check_access(&mut self, known: ClusterAccess) -> Result<(), ApiError> {
        match self.api(known)?.get("/version").await {
            // A short outage is reported by the tasks that use the API.
            Err(error) if self.is_access_checked && !error.needs_operator() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                self.is_access_checked = true;
                Ok(())
            }
        }
    }

    /// Returns the client of the previous iteration if the access is the same, otherwise a new one.
    fn api(&mut self, known: ClusterAccess) -> Result<Arc<Api>, ApiError> {
        if let Some((before, api)) = &self.session
            && before.is_same(&known)
        {
            return Ok(api.clone());
        }
        let api = Arc::new(Api::new(&known)?);
        self.session = Some((known, api.clone()));
        Ok(api)
    }
}

/// Checks that the issued certificate has the requested content and has not expired.
fn accept(
    chain: &[u8],
    key: &str,
    wanted: &CertificateRequest,
    key_info: &[u8],
    now: Timestamp,
) -> Result<Certificate, String> {
    let certificate = Certificate::of(chain, key.as_bytes(), now)?;
    if certificate.facts.key_info != key_info || !wanted.is_satisfied_by(&certificate.facts) {
        return Err("is not what was requested".to_owned());
    }
    if certificate.is_over(now) {
        return Err("has expired: compare the clocks of this machine and the server".to_owned());
    }
    Ok(certificate)
}

/// The event message for a CSR without a certificate, and whether the CSR was denied or failed.
fn request_message(
    status: &CsrStatus,
    wanted: &CertificateRequest,
    name: &str,
    server: &str,
) -> (String, bool) {
    let (user, words) = (&wanted.common_name, wanted.kind.words());
    let remove = format!(
        "the kubelet sends a new request once this one is deleted: kubectl delete csr {name}; the server deletes it after an \
         hour"
    );
    match status {
        CsrStatus::Pending | CsrStatus::Signed(_) => {
            let text = format!(
                "waits at {server} for the approval of the {words} of {user}: kubectl certificate approve {name}"
            );
            (text, false)
        }
        CsrStatus::Approved => {
            let signer = wanted.kind.signer();
            let text = format!(
                "the request {name} for the {words} of {user} is approved and not signed yet; if this lasts, check \
                 on {server} whether the signer {signer} runs"
            );
            (text, false)
        }
        CsrStatus::Held(why) => (
            format!("the request {name} for the {words} of {user} is approved and waits at {server}: {why}"),
            false,
        ),
        CsrStatus::Denied(why) => (
            format!("the request {name} for the {words} of {user} was denied at {server}: {why}; {remove}"),
            true,
        ),
        CsrStatus::Failed(why) => (
            format!(
                "the request {name} for the {words} of {user} cannot be signed at {server}: {why}; {remove}"
            ),
            true,
        ),
    }
}

/// Returns when the file exists, or when `at_most` has passed.
async fn wait_for_path(path: &Path, at_most: Duration) {
    // The caller reads the file in any case.
    let _ = tokio::time::timeout(at_most, file_watch::wait_until_exists(path, FileWatcher::default())).await;
}

#[cfg(test)]
mod tests;
