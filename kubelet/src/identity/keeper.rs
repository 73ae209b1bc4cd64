//! The loop that keeps one certificate: look at what there is, do the one step that is due, wait, look again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::PublicKeyData as _;
use rustls::crypto::ring;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Settings;
use super::access::{Known, Shows};
use super::api::Api;
use super::appear;
use super::certificate::Certificate;
use super::discover::Found;
use super::files::Files;
use super::pace;
use super::request::{Kind, PATH, Wanted};
use super::standing::{Authorities, Standing};
use super::trouble::Trouble;
use super::verdict::Verdict;
use super::voice::Voice;
use crate::disk;

/// Everything is looked at again after so long: the clock may have been set, the machine may have slept, addresses change.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Before a request is looked at that a watch has told of: events come in twos and threes.
const AFTER_NEWS: Duration = Duration::from_millis(200);
/// No server is obeyed that wants to be left alone for longer.
const LONGEST_OBEYED: Duration = Duration::from_secs(600);

/// Where a certificate is kept for whoever uses it.
pub type Shelf = watch::Sender<Option<Arc<Certificate>>>;

/// What the keepers of a node tell each other and others, beside certificates.
#[derive(Debug)]
pub struct Common {
    /// The authorities of the cluster, each time that it was asked for them.
    pub told: watch::Sender<Option<Arc<Authorities>>>,
    /// The way to the API server as this node.
    pub way: watch::Sender<Option<Known>>,
    /// Changes when a file was written that the node's own API goes by.
    pub files: watch::Sender<()>,
}

/// Keeps one certificate of the node.
pub struct Keeper {
    pub(super) settings: Arc<Settings>,
    pub(super) files: Files,
    pub(super) kind: Kind,
    /// Where the certificate is for all to see.
    pub(super) shelf: Shelf,
    /// The node's client certificate: what is shown for a serving one.
    pub(super) client: watch::Receiver<Option<Arc<Certificate>>>,
    /// The cluster of the join string, once it has been found.
    pub(super) found: Option<Found>,
    /// Whether the kubeconfig has turned out to be of the cluster of the join string.
    pub(super) is_of_line: bool,
    /// What is shared.
    pub(super) common: Arc<Common>,
    /// The authorities in it.
    pub(super) told: watch::Receiver<Option<Arc<Authorities>>>,
    /// Those that the certificate in hand was judged by, and how it stands.
    pub(super) judged: Option<Arc<Authorities>>,
    pub(super) standing: Standing,
    /// When the cluster is asked again who it is.
    pub(super) ask_at: Instant,
    /// Whether the cluster has answered a greeting.
    pub(super) is_greeted: bool,
    /// Tries that failed, one after the other.
    pub(super) failures: u32,
    /// Where between the earliest and the latest moment the certificate is renewed.
    pub(super) share: f64,
    pub(super) voice: Voice,
    looks: u32,
    session: Option<(Known, Arc<Api>)>,
}

/// What one turn of the loop came to.
#[derive(Debug)]
pub enum Step {
    /// Nothing is to be done before that moment.
    Rest(Timestamp),
    /// Nothing can be done before the node is known.
    Idle,
    /// There is a new certificate.
    Got(Arc<Certificate>),
    /// Somebody else has to do something about the request.
    Waits(Waiting),
}

/// A request that others have to do something about.
#[derive(Debug)]
pub struct Waiting {
    name: String,
    version: String,
    is_refused: bool,
    text: String,
}

impl Keeper {
    /// One for that certificate.
    pub fn new(
        settings: &Arc<Settings>,
        kind: Kind,
        shelf: Shelf,
        client: watch::Receiver<Option<Arc<Certificate>>>,
        common: &Arc<Common>,
        voice: Voice,
    ) -> Self {
        let files =
            Files { cert_dir: settings.cert_dir.clone(), kubeconfig: settings.cluster.kubeconfig.clone() };
        Self {
            settings: settings.clone(),
            files,
            kind,
            shelf,
            client,
            found: None,
            is_of_line: false,
            common: common.clone(),
            told: common.told.subscribe(),
            judged: None,
            standing: Standing::Good,
            ask_at: Instant::now(),
            is_greeted: false,
            failures: 0,
            share: chance(),
            voice,
            looks: 0,
            session: None,
        }
    }

    /// Keeps it for as long as the kubelet runs.
    pub async fn run(mut self) {
        loop {
            let step = match self.kind {
                Kind::Client => self.client_step().await,
                Kind::Serving => self.serving_step().await,
            };
            let now = Timestamp::now();
            match step {
                Ok(step) => {
                    self.failures = 0;
                    self.after(step, now).await;
                }
                Err(Trouble::Awaited { path }) => {
                    let text = format!(
                        "this node joins by {}, which is not there yet: a master that runs on this machine writes it when it starts, \
                         but under --csr-approval-policy always-reject: start that with another policy, or give this node a \
                         kubeconfig with a certificate of its own by --kubeconfig (docs/static.md); the node's own pods run meanwhile",
                        path.display()
                    );
                    self.voice.say("BootstrapAwaited", text, now);
                    appear::awaited(&path, LOOK_AGAIN).await;
                }
                Err(trouble) => {
                    let trouble = self.of_unregistered(trouble).await;
                    let words = self.kind.words();
                    self.voice.warn(
                        "CertificateTrouble",
                        format!("the {words} of this node: {trouble}"),
                        now,
                    );
                    self.session = None;
                    self.found = None;
                    let pause = pace::pause_after(&trouble, self.failures, LONGEST_OBEYED, chance());
                    self.failures = self.failures.saturating_add(1);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits as long as makes sense after a step that went well.
    async fn after(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Rest(until) => {
                self.looks = 0;
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                // What the cluster tells of its authorities may end the certificate before its time.
                let _ = tokio::time::timeout(left.min(LOOK_AGAIN), self.told.changed()).await;
            }
            // Whoever keeps the client certificate lives as long as this does.
            Step::Idle => tokio::select! {
                _ = self.client.changed() => {}
                _ = self.told.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            },
            Step::Got(new) => {
                self.looks = 0;
                self.show(new);
            }
            Step::Waits(waiting) => self.wait(waiting, now).await,
        }
    }

    /// Waits until something happens to a request: by a watch where this node may, by looking again where it is a stranger.
    async fn wait(&mut self, waiting: Waiting, now: Timestamp) {
        let Waiting { name, version, is_refused, text } = waiting;
        // Most renewals are approved by the cluster itself, before there is anything to tell or to watch.
        let is_first = self.looks == 0;
        if is_refused {
            self.voice.warn("CertificateRefused", text, now);
        } else if !is_first {
            self.voice.say("CertificateRequested", text, now);
        }
        let pause = if is_refused {
            pace::look_at_denied(self.looks, chance())
        } else {
            pace::look(self.looks, chance())
        };
        self.looks = self.looks.saturating_add(1);
        if let Some((known, api)) = &self.session
            && !is_first
            && !matches!(known.shows, Shows::Nothing)
            && api.happens(PATH, &name, &version).await.is_ok_and(|happened| happened)
        {
            // A server that tells of something each time is not asked without a pause.
            tokio::time::sleep(pause.min(AFTER_NEWS)).await;
            return;
        }
        tokio::time::sleep(pause).await;
    }

    /// Takes a certificate into use and says so.
    pub(super) fn show(&mut self, new: Arc<Certificate>) {
        self.share = chance();
        // One that is new may have come from somebody who has more to tell. One that was asked for because of what was told may be
        // of the same authority again, where another master signs: then there is a pause before the next word and the next request.
        let pause = match self.standing {
            Standing::Good => Duration::ZERO,
            Standing::Leaving | Standing::Foreign => {
                pace::ask_again(&new, chance()).min(pace::ASK_AFTER_TROUBLE)
            }
        };
        self.ask_at = Instant::now() + pause;
        self.standing = Standing::Good;
        // Whoever is a stranger again one day goes by what has been learned until then.
        self.found = None;
        let until = Timestamp::from_second(new.facts.until).unwrap_or(Timestamp::MAX);
        let due = pace::renew_at(&new, self.share);
        let words = self.kind.words();
        let text = format!("the {words} of this node is good until {until}, another is asked for at {due}");
        self.voice.tell("CertificateInUse", text);
        self.shelf.send_replace(Some(new));
        if self.kind == Kind::Serving {
            self.common.files.send_replace(());
        }
    }

    /// The certificate that is in use, or the one on the disk.
    pub(super) async fn held(&self) -> Result<Option<Arc<Certificate>>, Trouble> {
        if let Some(held) = self.shelf.borrow().clone() {
            return Ok(Some(held));
        }
        let (files, kind) = (self.files.clone(), self.kind);
        Ok(disk::run(move || files.certificate(kind)).await?.map(Arc::new))
    }

    /// Asks for a certificate, or looks at what has become of the request for it.
    pub(super) async fn ask(
        &mut self,
        known: Known,
        wanted: &Wanted,
        spent: Option<&Certificate>,
    ) -> Result<Step, Trouble> {
        let (files, kind) = (self.files.clone(), self.kind);
        let spent = spent.map(|spent| spent.facts.key_info.clone());
        let key = disk::run(move || files.key(kind, spent.as_deref())).await?;
        let api = self.api(known)?;
        let name = wanted.name(&key);
        let object = match api.get(&format!("{PATH}/{name}")).await {
            Err(trouble) if trouble.is_code(404) => {
                let object = wanted.object(&key).map_err(|why| Trouble::damaged("the node's name", why))?;
                api.post(PATH, &object).await?
            }
            found => found?,
        };
        let text = match Verdict::of(&object) {
            Verdict::Signed(chain) => {
                let now = Timestamp::now();
                let files = self.files.clone();
                let pem = key.serialize_pem();
                let read = accept(&chain, &pem, wanted, &key.subject_public_key_info(), now);
                let Ok(certificate) = read else {
                    disk::run(move || files.forget_key(kind)).await?;
                    let why = read.err().unwrap_or_default();
                    let what = format!("the certificate of the request {name}");
                    return Err(Trouble::damaged(what, format!("{why}; asking anew, with another key")));
                };
                disk::run(move || files.keep(kind, &chain, &pem)).await?;
                return Ok(Step::Got(Arc::new(certificate)));
            }
            verdict => told(&verdict, wanted, &name, api.server()),
        };
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let (text, is_refused) = text;
        Ok(Step::Waits(Waiting { name, version, is_refused, text }))
    }

    /// Speaks to the cluster, so that a person hears soon that it is another one, or shuts this node out, and not when a certificate
    /// is due.
    pub(super) async fn greet(&mut self, known: Known) -> Result<(), Trouble> {
        match self.api(known)?.get("/version").await {
            // A master that is away for a moment is told by whoever has something to do there.
            Err(trouble) if self.is_greeted && !trouble.shuts_out() => Ok(()),
            Err(trouble) => Err(trouble),
            Ok(_) => {
                self.is_greeted = true;
                Ok(())
            }
        }
    }

    /// The connection of last time where it is the same way.
    fn api(&mut self, known: Known) -> Result<Arc<Api>, Trouble> {
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

/// The certificate, if it is what was asked for; otherwise why not.
fn accept(
    chain: &[u8],
    key: &str,
    wanted: &Wanted,
    key_info: &[u8],
    now: Timestamp,
) -> Result<Certificate, String> {
    let certificate = Certificate::of(chain, key.as_bytes(), now)?;
    if certificate.facts.key_info != key_info || !wanted.is_met(&certificate.facts) {
        return Err("is not what was asked for".to_owned());
    }
    if certificate.is_over(now) {
        return Err("has expired already: compare the clocks of this machine and the server".to_owned());
    }
    Ok(certificate)
}

/// What a person is told of a request that has no certificate, and whether that is bad news.
fn told(verdict: &Verdict, wanted: &Wanted, name: &str, server: &str) -> (String, bool) {
    let (user, words) = (&wanted.common_name, wanted.kind.words());
    let remove = format!(
        "the kubelet asks anew once the request is gone: kubectl delete csr {name}; the server does that after an hour"
    );
    match verdict {
        Verdict::Pending | Verdict::Signed(_) => {
            let text = format!(
                "waits until somebody at {server} approves the {words} of {user}: kubectl certificate approve {name}"
            );
            (text, false)
        }
        Verdict::Approved => {
            let signer = wanted.kind.signer();
            let text = format!(
                "the request {name} for the {words} of {user} is approved and not signed yet; if that lasts, see at {server} whether \
                 the signer of {signer} runs"
            );
            (text, false)
        }
        Verdict::Denied(why) => (
            format!("the request {name} for the {words} of {user} was denied at {server}: {why}; {remove}"),
            true,
        ),
        Verdict::Failed(why) => (
            format!(
                "the request {name} for the {words} of {user} cannot be signed at {server}: {why}; {remove}"
            ),
            true,
        ),
    }
}

/// A random number from 0 up to 1; the middle where the system has no randomness.
pub fn chance() -> f64 {
    let mut bytes = [0; 4];
    match ring::default_provider().secure_random.fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}
