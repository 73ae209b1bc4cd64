//! Two nodes with a pod. The minimal node supports only SPDY, runs commands as processes in a folder, and forwards to
//! an echo server on this machine. The other is a kubelet with an in-memory engine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::spdy::exec::{self, StreamOptions, Streams};
use apiserver::spdy::port_forward::{self, ForwardedConnection, ForwardedConnections};
use apiserver::spdy::{Stream, Upgrade};
use apiserver::watch_cache::{Draft, WatchCache};
use apiserver::{Api, Catalog, VERSION};
use axum::Router;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use kubelet::health::Health;
use kubelet::metrics::Metrics;
use kubelet::runtime::contract::identity;
use kubelet::runtime::fake::Fake;
use kubelet::server::Context;
use kubelet::stats::StatsProvider;
use kubelet::status::{StatusManager, resources};
use kubelet::volumes::Volumes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{DEADLINE, Kubectl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Port of the pod's echo server, as in the fake engine; nothing listens on other ports.
pub const ECHO: u16 = 7;

/// A node; dropping the value stops it.
pub struct Node {
    /// Address of the server.
    pub address: SocketAddr,
    /// Kubeconfig of the master that kubectl uses. `None` if kubectl uses the node directly.
    pub kubeconfig: Option<PathBuf>,
    refused: Arc<AtomicUsize>,
    folder: TempDir,
    _stop: watch::Sender<bool>,
}

#[derive(Clone)]
struct Inside {
    /// Working directory of commands.
    folder: PathBuf,
    /// Address of the echo server.
    echo: SocketAddr,
    /// Number of refused requests for forwarded ports.
    refused: Arc<AtomicUsize>,
}

impl Node {
    /// The minimal SPDY node.
    pub async fn tiny() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("pod")).unwrap();
        let refused = Arc::new(AtomicUsize::new(0));
        let inside =
            Inside { folder: folder.path().join("pod"), echo: echo().await, refused: refused.clone() };
        let store = WatchCache::new(1);
        show_pod(&store, "tiny");
        let api = Api::new(store, Catalog::new(resources::all()), VERSION);
        let router = Router::new()
            .route("/api/v1/namespaces/default/pods/web/exec", any(exec))
            .route("/api/v1/namespaces/default/pods/web/portforward", any(port_forward))
            .route("/portForward/default/web", any(port_forward))
            .with_state(Arc::new(inside))
            .merge(api.router());
        Self { refused, ..Self::serving(folder, router).await }
    }

    /// The kubelet with an in-memory engine.
    pub async fn kubelet() -> Self {
        let fake = Fake::new("n1");
        let id = fake.bench().running("web", "while").await.id;
        let status_manager = StatusManager::new("n1");
        show_pod(status_manager.store(), &id);
        let context = Context {
            volumes: Arc::new(Volumes::new("/".as_ref())),
            api: Api::new(status_manager.store().clone(), resources::catalog(), VERSION),
            status_manager,
            runtime: Arc::new(fake),
            health: Health::new(),
            metrics: Arc::new(Metrics::new("n1", VERSION.git_version)),
            stats: StatsProvider::new("n1", "/".as_ref(), Box::new(Vec::new)),
            configuration: Arc::default(),
            streaming_idle: DEADLINE,
        };
        Self::serving(tempfile::tempdir().unwrap(), kubelet::server::router(&context)).await
    }

    async fn serving(folder: TempDir, router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(apiserver::serve(listener, router, stopped));
        Self { address, kubeconfig: None, refused: Arc::default(), folder, _stop: stop }
    }

    /// A kubectl command for the node, with a separate home directory.
    pub fn kubectl(&self, kubectl: &Kubectl) -> Command {
        let home = self.folder.path().join(format!("home-{}", kubectl.minor));
        std::fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(&kubectl.path);
        command.env("HOME", home);
        match &self.kubeconfig {
            Some(kubeconfig) => command.arg("--kubeconfig").arg(kubeconfig),
            None => command.arg("--server").arg(format!("http://{}", self.address)),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Number of requests for forwarded ports that the minimal node refused.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// Working directory of the pod's commands.
    pub fn pod(&self) -> PathBuf {
        self.folder.path().join("pod")
    }

    /// A directory for files of the test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Adds the pod to the watch cache, with that container ID.
fn show_pod(store: &WatchCache, id: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": identity("web", "c").uid.as_str()},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
             "containerID": format!("docker://{id}"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
        ]},
    });
    store.put("pods", &Draft::new(pod.as_object().unwrap(), &resources::fields("pods")));
}

/// Starts an echo server.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    address
}

async fn exec(
    State(inside): State<Arc<Inside>>,
    Query(query): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let is_set = |name: &str| query.iter().any(|(key, value)| key == name && value == "true");
    let wanted = StreamOptions {
        stdin: is_set("stdin"),
        stdout: is_set("stdout"),
        stderr: is_set("stderr"),
        tty: is_set("tty"),
    };
    let words = query.iter().filter(|(key, _)| key == "command");
    let command: Vec<String> = words.map(|(_, word)| word.clone()).collect();
    let upgrade = match Upgrade::read(&mut parts, exec::PROTOCOLS) {
        Ok(upgrade) => upgrade,
        Err(refusal) => return refusal.into_response(),
    };
    let protocol = upgrade.protocol;
    upgrade.serve(exec::admit, DEADLINE, move |session| async move {
        let Some(mut streams) = Streams::accept(session, protocol, wanted).await else { return };
        let status = run(&command, &inside.folder, &mut streams).await;
        streams.end(&status).await;
    })
}

/// Runs a command to its end. Returns its exit status as a `Status` object.
async fn run(command: &[String], folder: &Path, streams: &mut Streams) -> Value {
    let started = Command::new(&command[0])
        .args(&command[1..])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return json!({"status": "Failure", "message": format!("{}: {error}", command[0])}),
    };
    let Child { stdin, stdout, stderr, .. } = &mut child;
    let (mut input, output, errors) = (stdin.take().unwrap(), stdout.take().unwrap(), stderr.take().unwrap());
    let given = streams.stdin.take();
    let giving = tokio::spawn(async move {
        if let Some(mut stream) = given {
            let _ = tokio::io::copy(&mut stream.reader, &mut input).await;
        }
    });
    tokio::join!(pass(output, &mut streams.stdout), pass(errors, &mut streams.stderr));
    giving.abort();
    match child.wait().await.unwrap().code().unwrap_or(-1) {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}

async fn pass(mut from: impl tokio::io::AsyncRead + Unpin, to: &mut Option<Stream>) {
    if let Some(stream) = to {
        let _ = tokio::io::copy(&mut from, &mut stream.writer).await;
    } else {
        let _ = from.read_to_end(&mut Vec::new()).await;
    }
}

async fn port_forward(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let (mut parts, _) = request.into_parts();
    let upgrade = match Upgrade::read(&mut parts, port_forward::PROTOCOLS) {
        Ok(upgrade) => upgrade,
        Err(refusal) => {
            inside.refused.fetch_add(1, Ordering::SeqCst);
            return refusal.into_response();
        }
    };
    upgrade.serve(port_forward::admit, DEADLINE, move |session| async move {
        let mut pairs = ForwardedConnections::new(session);
        while let Some(pair) = pairs.next().await {
            tokio::spawn(forward(pair, inside.echo));
        }
    })
}

async fn forward(pair: ForwardedConnection, echo: SocketAddr) {
    let ForwardedConnection { port, data, mut error } = pair;
    if port != ECHO {
        let message = format!("error forwarding port {port} to pod: nobody listens there");
        let _ = error.writer.write_all(message.as_bytes()).await;
        return;
    }
    let mut stream = tokio::time::timeout(DEADLINE, TcpStream::connect(echo)).await.unwrap().unwrap();
    let mut data = tokio::io::join(data.reader, data.writer);
    let _ = tokio::io::copy_bidirectional(&mut data, &mut stream).await;
}
