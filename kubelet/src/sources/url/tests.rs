//! The URL source against a test server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fetch::without_password;
use super::{Settings, watch};
use crate::desired::{Completeness, Snapshot, SourceObject};

const DEADLINE: Duration = Duration::from_secs(20);

/// Responses of the server, and its requests.
#[derive(Clone, Debug, Default)]
struct Script {
    status: u16,
    body: String,
    headers: Vec<(&'static str, String)>,
    hangs: bool,
    requests: Vec<(String, String)>,
}

struct Bed {
    url: String,
    script: Arc<Mutex<Script>>,
    folder: TempDir,
    task: JoinHandle<()>,
    snapshots: mpsc::Receiver<Arc<Snapshot>>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let (script, hangs) = {
        let mut script = script.lock().unwrap();
        for (name, value) in request.headers() {
            script.requests.push((name.to_string(), value.to_str().unwrap().to_owned()));
        }
        let etag = script.headers.iter().find(|(name, _)| *name == "etag").map(|(_, value)| value.clone());
        let known = request.headers().get("if-none-match").map(|value| value.to_str().unwrap().to_owned());
        let mut answer = script.clone();
        if script.status == 200 && etag.is_some() && etag == known {
            script.requests.push(("answered".to_owned(), "304".to_owned()));
            answer.status = 304;
            answer.body.clear();
        }
        (answer, script.hangs)
    };
    if hangs {
        std::future::pending::<()>().await;
    }
    let mut response = Response::builder().status(script.status);
    for (name, value) in script.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(script.body)).unwrap()
}

impl Bed {
    async fn start(status: u16, body: &str) -> Self {
        let script = Arc::new(Mutex::new(Script { status, body: body.to_owned(), ..Script::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/pods", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(script.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let folder = TempDir::new().unwrap();
        let (task, snapshots) = spawn(&folder, &url);
        Self { url, script, folder, task, snapshots }
    }

    fn serve(&self, status: u16, body: &str) {
        self.script(|script| (script.status, script.body) = (status, body.to_owned()));
    }

    fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    async fn next(&mut self) -> Arc<Snapshot> {
        timeout(DEADLINE, self.snapshots.recv()).await.unwrap().unwrap()
    }

    /// Waits for a snapshot with exactly these pods, and problems that contain these texts.
    async fn until(&mut self, pods: &str, problems: &[&str]) -> Arc<Snapshot> {
        let mut last = None;
        let wait = async {
            loop {
                let Some(snapshot) = self.snapshots.recv().await else { panic!("the source has ended") };
                let problem: Vec<String> = snapshot.problems.iter().map(ToString::to_string).collect();
                let fits = problem.len() == problems.len()
                    && problem.iter().zip(problems).all(|(problem, word)| problem.contains(word));
                if fits && shown(&snapshot) == pods {
                    return snapshot;
                }
                last = Some((shown(&snapshot), problem));
            }
        };
        timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("wanted {pods:?} {problems:?}, got {last:?}"))
    }

    /// Waits for a matching request.
    async fn requests(&self, wanted: impl Fn(&str, &str) -> bool) {
        let wait = async {
            while !self.script.lock().unwrap().requests.iter().any(|(name, value)| wanted(name, value)) {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, wait).await.unwrap();
    }
}

fn spawn(folder: &TempDir, url: &str) -> (JoinHandle<()>, mpsc::Receiver<Arc<Snapshot>>) {
    let (sender, snapshots) = mpsc::channel(1);
    let settings = Settings {
        url: url.to_owned(),
        headers: vec![("X-Token".to_owned(), "open sesame".to_owned())],
        node: "n".to_owned(),
        every: Duration::from_millis(20),
        root_dir: folder.path().to_owned(),
    };
    (tokio::spawn(watch(settings, sender)), snapshots)
}

fn shown(snapshot: &Snapshot) -> String {
    let names = snapshot.objects.iter().map(|found| found.name.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, image: x}}]}}\n"
    )
}

#[tokio::test]
async fn url_source_publishes_the_served_pods() {
    let mut bed = Bed::start(200, &pod("a")).await;
    let snapshot = bed.until("a", &[]).await;
    assert_eq!(snapshot.completeness, Completeness::Complete);
    assert_eq!(*snapshot.objects[0].origin, *bed.url);
    let SourceObject::Pod(found) = &snapshot.objects[0].object else { panic!() };
    assert_eq!(found.metadata.annotations.as_ref().unwrap()["kubernetes.io/config.source"], "http");
    bed.serve(200, &format!("{}---\n{}", pod("a"), pod("b")));
    let next = bed.until("a b", &[]).await;
    let SourceObject::Pod(again) = &next.objects[0].object else { panic!() };
    assert!(Arc::ptr_eq(found, again));
    bed.serve(200, r#"{"apiVersion": "v1", "kind": "List", "items": []}"#);
    bed.until("", &[]).await;
    bed.requests(|name, value| (name, value) == ("x-token", "open sesame")).await;
}

#[tokio::test]
async fn url_source_sends_conditional_requests() {
    let mut bed = Bed::start(200, &pod("a")).await;
    bed.script(|script| {
        script.headers =
            vec![("etag", "\"1\"".to_owned()), ("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT".to_owned())];
    });
    bed.until("a", &[]).await;
    bed.requests(|name, value| (name, value) == ("answered", "304")).await;
    bed.requests(|name, value| (name, value) == ("if-modified-since", "Tue, 14 Nov 2023 22:13:20 GMT")).await;
    bed.script(|script| {
        script.headers = vec![("etag", "\"2\"".to_owned())];
        script.body = pod("b");
    });
    bed.until("b", &[]).await;
}

#[tokio::test]
async fn a_failed_fetch_is_reported_and_keeps_the_pods() {
    let mut bed = Bed::start(200, &pod("a")).await;
    bed.until("a", &[]).await;
    for (status, body, problem) in [
        (500, "oops", "the server answered 500 Internal Server Error, not 200 OK; check the server"),
        (204, "", "the server answered 204 No Content, not 200 OK"),
        (304, "", "the server answered 304 Not Modified, not 200 OK"),
        (200, "", "the answer is empty; serve a manifest; to end all pods serve an empty List"),
        (200, "<html>Hello</html>", "(the last good version stays in use)"),
        (200, "{\"kind\": \"Pod\",", "(the last good version stays in use)"),
    ] {
        bed.serve(status, body);
        bed.until("a", &[problem]).await;
        bed.serve(200, &pod("a"));
        bed.until("a", &[]).await;
    }
    bed.serve(200, &"#".repeat(api::decode::MAX_MANIFEST_BYTES + 1));
    bed.until("a", &["the answer is longer than 10485760 bytes; serve less"]).await;
    bed.script(|script| (script.status, script.headers) = (302, vec![("location", "/pods".to_owned())]));
    bed.until("a", &["too many redirects"]).await;
    bed.script(|script| script.headers.clear());
    bed.serve(200, &pod("b"));
    bed.until("b", &[]).await;
}

#[tokio::test]
async fn unchanged_response_after_an_error_clears_the_error() {
    let mut bed = Bed::start(200, &pod("a")).await;
    let tag = |script: &mut Script| script.headers = vec![("etag", "\"1\"".to_owned())];
    bed.script(tag);
    bed.until("a", &[]).await;
    bed.requests(|name, value| (name, value) == ("answered", "304")).await;
    bed.serve(500, "oops");
    bed.until("a", &["the server answered 500"]).await;
    bed.serve(200, &pod("a"));
    bed.script(tag);
    bed.until("a", &[]).await;
}

#[tokio::test]
async fn last_url_response_survives_a_kubelet_restart() {
    let mut bed = Bed::start(200, &pod("a")).await;
    let before = bed.until("a", &[]).await;
    bed.serve(500, "");
    bed.until("a", &["500"]).await;
    bed.task.abort();
    (bed.task, bed.snapshots) = spawn(&bed.folder, &bed.url);
    let after = bed.until("a", &["500"]).await;
    assert_eq!(after.completeness, Completeness::Incomplete, "what else was served meanwhile is not known");
    assert_eq!(before.objects[0].object, after.objects[0].object);
    bed.serve(200, &pod("b"));
    assert_eq!(bed.until("b", &[]).await.completeness, Completeness::Complete);
}

#[tokio::test]
async fn changed_url_does_not_reuse_the_stored_response() {
    let mut bed = Bed::start(200, &pod("a")).await;
    bed.until("a", &[]).await;
    bed.task.abort();
    bed.serve(500, "");
    (bed.task, bed.snapshots) = spawn(&bed.folder, &format!("{}/other", bed.url));
    bed.until("", &["500"]).await;
}

#[tokio::test(start_paused = true)]
async fn url_source_times_out_after_ten_seconds() {
    let mut bed = Bed::start(200, "").await;
    bed.script(|script| script.hangs = true);
    let start = tokio::time::Instant::now();
    let snapshot = bed.next().await;
    assert!(snapshot.problems[0].to_string().contains("no complete response within 10 s"), "{snapshot:?}");
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_certificate_of_an_unknown_ca_is_rejected() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], certified.signing_key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // The handshake is expected to fail.
            let _ = acceptor.accept(stream).await;
        }
    });
    let mut bed = Bed::start(200, "").await;
    bed.task.abort();
    (bed.task, bed.snapshots) = spawn(&bed.folder, &format!("https://localhost:{port}/"));
    let problem = bed.next().await.problems[0].to_string();
    assert!(problem.contains("invalid peer certificate"), "{problem}");
}

#[tokio::test]
async fn an_invalid_url_is_an_error() {
    for (url, problem) in [
        ("example.com/pods", "this is not a URL"),
        ("ftp://example.com/", "the scheme \"ftp\" is not supported"),
    ] {
        let folder = TempDir::new().unwrap();
        let (task, mut snapshots) = spawn(&folder, url);
        let snapshot = timeout(DEADLINE, snapshots.recv()).await.unwrap().unwrap();
        assert!(snapshot.problems[0].to_string().contains(problem), "{snapshot:?}");
        assert_eq!(snapshot.completeness, Completeness::Incomplete);
        task.abort();
    }
}

#[test]
fn url_password_is_not_logged() {
    assert_eq!(without_password("https://me:secret@example.com/x"), "https://me:...@example.com/x");
    assert_eq!(without_password("https://example.com/x"), "https://example.com/x");
}
