//! A server that plays a cluster: it serves a bootstrap document, validates requests as strictly as a stock server, signs certificates
//! with a lifetime that the test chooses, and records each request.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use master::pki::{Lifetimes, Names, Pki, Signer, Validity, rotate};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Port, free_port};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// The token of the stage's bootstrap kubeconfigs.
pub const TOKEN: &str = "abcdef.0123456789abcdef";

/// A simulated cluster.
#[derive(Debug)]
pub struct Stage {
    /// The port on which it listens.
    pub port: Port,
    shared: Arc<Shared>,
    task: Option<tokio::task::JoinHandle<()>>,
}

/// The authorities of a cluster, which outlive a server.
#[derive(Debug)]
pub struct Authorities {
    pki: Pki,
    folder: TempDir,
}

/// The behaviour of a stage.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The lifetime of certificates.
    pub life: Duration,
    /// The bootstrap document that it serves instead of its own.
    pub document: Option<Value>,
    /// Whether anonymous clients may send requests, as at our own master; a stock server requires the token.
    pub takes_strangers: bool,
    /// Whether it rejects further requests because too many are undecided.
    pub is_full: bool,
    /// Whether it uses the serving certificate of a node, which even contains the names of a master.
    pub is_node: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            life: Duration::from_secs(3600),
            document: None,
            takes_strangers: true,
            is_full: false,
            is_node: false,
        }
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `GET /path`.
    pub what: String,
    /// `anonymous`, `token`, or the common name of the certificate.
    pub user: String,
}

#[derive(Debug)]
struct Shared {
    authorities: Arc<Authorities>,
    rules: Rules,
    /// The offset of the server's clock from the real one.
    clock: SignedDuration,
    server: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Seen>,
    objects: BTreeMap<String, Value>,
    faults: Vec<String>,
    addresses: Vec<BTreeSet<IpAddr>>,
    version: u64,
}

impl Authorities {
    /// New authorities.
    pub fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(folder.path(), Timestamp::now()).unwrap();
        Arc::new(Self { pki, folder })
    }

    /// The successors of these authorities, which remain unchanged: a new root beside the old one.
    pub fn rotated(&self) -> Arc<Self> {
        self.then(|folder| rotate::begin(folder, Timestamp::now()).unwrap())
    }

    /// The successors after the old root is retired.
    pub fn retired(&self) -> Arc<Self> {
        self.then(|folder| assert!(rotate::retire(folder).unwrap()))
    }

    fn then(&self, change: impl FnOnce(&Path)) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(self.folder.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        change(folder.path());
        let pki = Pki::open(folder.path(), Timestamp::now()).unwrap();
        Arc::new(Self { pki, folder })
    }

    /// The root hash that a join string pins.
    pub fn hash(&self) -> String {
        self.pki.root_hash()
    }

    /// The root certificate, PEM.
    pub fn root(&self) -> String {
        self.pki.root_pem()
    }
}

impl Stage {
    /// Starts a stage with these authorities and rules.
    pub async fn new(authorities: &Arc<Authorities>, rules: Rules) -> Self {
        Self::at(free_port(), authorities, rules, SignedDuration::ZERO).await
    }

    /// The same at the given port, with a clock that is ahead by `clock`.
    pub async fn at(port: Port, authorities: &Arc<Authorities>, rules: Rules, clock: SignedDuration) -> Self {
        let server = format!("https://127.0.0.1:{port}");
        let shared =
            Shared { authorities: authorities.clone(), rules, clock, server, state: Mutex::default() };
        let mut stage = Self { port, shared: Arc::new(shared), task: None };
        stage.open().await;
        stage
    }

    async fn open(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port.number)).await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls(&self.shared)));
        let shared = self.shared.clone();
        self.task = Some(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), shared.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                    let user = shown.and_then(|shown| Validity::of(shown).ok()).map(|life| life.name);
                    let service = service_fn(move |request| answer(shared.clone(), user.clone(), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }));
    }

    /// The URL of the server.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// The join string of this stage.
    pub fn line(&self) -> String {
        format!("{}#sha256:{}", self.server(), self.shared.authorities.hash())
    }

    /// The authorities of this stage.
    pub fn authorities(&self) -> Arc<Authorities> {
        self.shared.authorities.clone()
    }

    /// The received requests.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state.lock().unwrap().seen.clone()
    }

    /// Deviations from the stock protocol.
    pub fn faults(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().faults.clone()
    }

    /// The addresses in each certificate request, oldest first.
    pub fn addresses(&self) -> Vec<BTreeSet<IpAddr>> {
        self.shared.state.lock().unwrap().addresses.clone()
    }

    /// Approves and signs every pending request. Returns the number of requests.
    pub fn approve(&self) -> usize {
        let mut state = self.shared.state.lock().unwrap();
        let state = &mut *state;
        for object in state.objects.values_mut().filter(|object| object.get("status").is_none()) {
            state.version += 1;
            sign(&self.shared, object, state.version);
        }
        state.objects.len()
    }

    /// Stops the server; its port stays reserved.
    pub async fn leave(mut self) -> Port {
        let task = self.task.take().unwrap();
        task.abort();
        // The port is free when the task has ended.
        let _ = task.await;
        std::mem::replace(&mut self.port, free_port())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.take().inspect(tokio::task::JoinHandle::abort);
    }
}

/// The server's TLS configuration, with a certificate that is valid by its clock.
fn tls(shared: &Shared) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pki = &shared.authorities.pki;
    let names = Names::of_master("stage", "cluster.local", &[]);
    let (chain, key) = if shared.rules.is_node {
        of_node(pki, &names)
    } else {
        let serving = pki.serving(&names, Timestamp::now() + shared.clock).unwrap();
        (serving.chain, serving.key)
    };
    let mut roots = RootCertStore::empty();
    pki.client_cas().into_iter().for_each(|root| roots.add(root).unwrap());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier.allow_unauthenticated().build().unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
}

/// The serving certificate of a node for these names, which no administrator should have approved.
fn of_node(pki: &Pki, names: &Names) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let addresses = names.addresses.iter().map(ToString::to_string);
    let all: Vec<String> = names.dns.iter().cloned().chain(addresses).collect();
    let mut params = CertificateParams::new(all).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:thief");
    let key = KeyPair::generate().unwrap();
    let csr = params.serialize_request(&key).unwrap().pem().unwrap();
    let csr = master::pki::Request::read(csr.as_bytes()).unwrap();
    let signer = Signer::of("kubernetes.io/kubelet-serving").unwrap();
    let usages = signer.check(&csr, &["digital signature", "server auth"]).unwrap();
    let signed = pki.issue(&csr, &usages, None, Timestamp::now()).unwrap();
    let chain = CertificateDer::pem_slice_iter(signed.as_bytes()).map(Result::unwrap).collect();
    (chain, PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap())
}

async fn answer(
    shared: Arc<Shared>,
    certificate: Option<String>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let bearer = head.headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
    let user = match (certificate, bearer) {
        (Some(name), _) => name,
        (None, Some(bearer)) if bearer == format!("Bearer {TOKEN}") => "token".to_owned(),
        (None, Some(bearer)) => format!("somebody with {bearer}"),
        (None, None) => "anonymous".to_owned(),
    };
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (code, object) = decide(&shared, &user, &head, &body);
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    let response = if code == StatusCode::TOO_MANY_REQUESTS {
        response.header(header::RETRY_AFTER, "600")
    } else {
        response
    };
    Ok(response.body(Full::new(object.to_string().into())).unwrap())
}

fn decide(shared: &Shared, user: &str, head: &http::request::Parts, body: &[u8]) -> (StatusCode, Value) {
    let mut state = shared.state.lock().unwrap();
    let state = &mut *state;
    let path = head.uri.path();
    state.seen.push(Seen { what: format!("{} {path}", head.method), user: user.to_owned() });
    let no = |code: StatusCode, message: &str| {
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code.as_u16()}),
        )
    };
    if path == "/bootstrap/v1/cluster-info" && shared.rules.takes_strangers {
        let own = json!({
            "apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": [shared.server],
            "certificateAuthority": shared.authorities.root(), "nodeUserPrefix": "kubelet:",
            "retiringAuthority": shared.authorities.pki.retiring_pem(),
            "serverTime": (Timestamp::now() + shared.clock).to_string(),
        });
        return (StatusCode::OK, shared.rules.document.clone().unwrap_or(own));
    }
    if path == "/version" {
        return (StatusCode::OK, json!({"major": "1", "minor": "36"}));
    }
    let Some(rest) = path.strip_prefix(REQUESTS) else { return no(StatusCode::NOT_FOUND, "not found") };
    if user == "anonymous" && !shared.rules.takes_strangers {
        return no(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    let is_watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
    match (&head.method, rest.trim_start_matches('/')) {
        (&Method::POST, "") if shared.rules.is_full => {
            let (code, mut status) =
                no(StatusCode::TOO_MANY_REQUESTS, "10 requests of the node are undecided");
            status["details"] = json!({"causes": [{"reason": "TooManyPendingRequests"}]});
            (code, status)
        }
        (&Method::POST, "") => {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            state.faults.extend(faults(&object, user, &head.headers, shared.rules.takes_strangers));
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if state.objects.contains_key(&name) {
                return no(StatusCode::CONFLICT, "it exists");
            }
            let addresses = csr(&object).map(|csr| csr.names.addresses).unwrap_or_default();
            state.addresses.push(addresses);
            state.version += 1;
            let mut object = object;
            object["metadata"]["resourceVersion"] = state.version.to_string().into();
            // A client with a certificate renews without an approval.
            if user != "anonymous" && user != "token" {
                sign(shared, &mut object, state.version);
            }
            state.objects.insert(name, object.clone());
            (StatusCode::CREATED, object)
        }
        (&Method::GET, "") if is_watch => no(StatusCode::FORBIDDEN, "this server is not watched"),
        (&Method::GET, name) => match state.objects.get(name) {
            Some(object) => (StatusCode::OK, object.clone()),
            None => no(StatusCode::NOT_FOUND, "there is no such request"),
        },
        _ => no(StatusCode::METHOD_NOT_ALLOWED, "no"),
    }
}

/// Properties that a stock signer would reject and that a stock kubelet does not send.
fn faults(object: &Value, user: &str, headers: &http::HeaderMap, takes_strangers: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            faults.push(what)
        }
    };
    expect(object["apiVersion"] == "certificates.k8s.io/v1", "apiVersion".to_owned());
    expect(object["kind"] == "CertificateSigningRequest", "kind".to_owned());
    expect(
        headers.get("content-type").is_some_and(|kind| kind == "application/json"),
        "content-type".to_owned(),
    );
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    expect(name.starts_with("node-csr-"), format!("name {name}"));
    expect(object.get("status").is_none(), "a status".to_owned());
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    let usages = object["spec"]["usages"].as_array().cloned().unwrap_or_default();
    let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
    match (Signer::of(signer), csr(object)) {
        (Some(known), Ok(csr)) => {
            expect(usages.len() == 3, format!("usages {usages:?}"));
            if let Err(why) = known.check(&csr, &usages) {
                expect(false, why);
            }
            let prefix = if takes_strangers { "kubelet:" } else { "system:node:" };
            expect(csr.common_name.starts_with(prefix), csr.common_name.clone());
            let is_own = ["anonymous", "token"].contains(&user) || user == csr.common_name;
            expect(is_own, format!("{user} asks for {}", csr.common_name));
        }
        (signer, csr) => expect(false, format!("{signer:?} {csr:?}")),
    }
    faults
}

fn csr(object: &Value) -> Result<master::pki::Request, String> {
    let pem = STANDARD.decode(object["spec"]["request"].as_str().unwrap_or_default());
    master::pki::Request::read(&pem.map_err(|error| error.to_string())?)
}

fn sign(shared: &Shared, object: &mut Value, version: u64) {
    let usages = object["spec"]["usages"].as_array().cloned().unwrap_or_default();
    let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
    let signer = Signer::of(object["spec"]["signerName"].as_str().unwrap_or_default()).unwrap();
    let csr = csr(object).unwrap();
    let usages = signer.check(&csr, &usages).unwrap();
    let lifetimes = Lifetimes { issued: shared.rules.life, ..Lifetimes::default() };
    let pki =
        Pki::open(shared.authorities.folder.path(), Timestamp::now()).unwrap().with_lifetimes(lifetimes);
    let signed = pki.issue(&csr, &usages, None, Timestamp::now()).unwrap();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object["status"] = json!({
        "conditions": [{"type": "Approved", "status": "True", "reason": "Stage", "message": "played"}],
        "certificate": STANDARD.encode(signed),
    });
}
