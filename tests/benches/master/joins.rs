//! (f) Lets many machines join at once. Each machine sends a certificate signing request for its own key, waits,
//! and uses the certificate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use tests::Master;
use tokio::task::JoinSet;

use crate::arguments::Arguments;
use crate::client::{Connection, Way};
use crate::shared::gauge;
use crate::shared::numbers::quartiles;
use crate::shared::table::Table;
use crate::{machine, start};

/// Maximum seconds until the last machine is a node.
const TARGET: f64 = 60.0;
/// Poll interval of a machine that waits for its certificate. A stock kubelet that may not watch polls as often.
const LOOK: Duration = Duration::from_secs(1);
/// How long a machine may take to join.
const DEADLINE: Duration = Duration::from_secs(600);
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A machine: its name, its key and its certificate signing request. All are created before the measurement starts.
struct Machine {
    name: String,
    key: String,
    request: String,
}

impl Machine {
    fn new(number: usize) -> Self {
        let (name, key) = (format!("node-{number}"), KeyPair::generate().unwrap());
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, format!("kubelet:{name}"));
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        });
        Self { name, key: key.serialize_pem(), request: request.to_string() }
    }

    /// Lets the machine join. Returns the seconds from its first request until it has created its own Node object.
    async fn join(self, way: Way, authority: Arc<str>) -> f64 {
        let begun = Instant::now();
        let mut stranger = way.shows(&authority, None).connect().await.unwrap();
        make(&mut stranger, REQUESTS, &self.request).await;
        let path = format!("{REQUESTS}/{}", self.name);
        let certificate = loop {
            let (_, answer) = stranger.exchange(Method::GET, &path, "").await.unwrap();
            let seen: Value = serde_json::from_slice(&answer).unwrap();
            if let Some(signed) = seen["status"]["certificate"].as_str() {
                break String::from_utf8(STANDARD.decode(signed).unwrap()).unwrap();
            }
            assert!(begun.elapsed() < DEADLINE, "{seen}");
            tokio::time::sleep(LOOK).await;
        };
        drop(stranger);
        let own = way.shows(&authority, Some((&certificate, &self.key)));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}}).to_string();
        make(&mut own.connect().await.unwrap(), "/api/v1/nodes", &node).await;
        begun.elapsed().as_secs_f64()
    }
}

/// Creates an object. If the master is overloaded, retries after the delay in the response.
async fn make(connection: &mut Connection, path: &str, object: &str) {
    let begun = Instant::now();
    loop {
        let (code, answer) = connection.exchange(Method::POST, path, object).await.unwrap();
        if code == 201 {
            return;
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(code == 429 && begun.elapsed() < DEADLINE, "{code}: {text}");
        let seen: Value = serde_json::from_str(&text).unwrap();
        tokio::time::sleep(Duration::from_secs(seen["details"]["retryAfterSeconds"].as_u64().unwrap())).await;
    }
}

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    machine::open_many();
    let mut master = Master::new().with_flags(["--csr-approval-policy=insecure-always-approve"]);
    start::start(&mut master).await;
    let (way, authority) = (Way::to(&master).unwrap(), Arc::from(master.admin().unwrap().authority));
    let machines: Vec<Machine> = (0..arguments.joins).map(Machine::new).collect();
    let before = gauge::memory(master.pid());
    let begun = Instant::now();
    let mut joining = JoinSet::new();
    for machine in machines {
        joining.spawn(machine.join(way.clone(), Arc::clone(&authority)));
    }
    let times = joining.join_all().await;
    let seconds = begun.elapsed().as_secs_f64();
    let after = gauge::memory(master.pid());
    let (low, high) = quartiles(&times);
    let what = format!("(f) {} machines become nodes", arguments.joins);
    table.at_most(&what, TARGET, seconds, " s", format!("half of them within {low:.1} to {high:.1} s"));
    let detail = format!("{:.1} before, at most {:.1}", before.resident, after.peak);
    table.at_most("(f) memory afterwards", f64::INFINITY, after.resident, " MiB", detail);
}
