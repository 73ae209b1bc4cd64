//! A machine that joins as a node: a key on disk, certificate requests made by `openssl`, and its credentials.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{DEADLINE, Master, installed, trusting, wait_until};

/// API path of certificate signing requests.
pub const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Signer of client certificates of nodes.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of serving certificates of nodes.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// Credentials that a machine presents to the server.
pub enum Shows<'a> {
    /// None.
    Nothing,
    /// A bearer token.
    Token(&'a str),
    /// A certificate (PEM) for the machine's key.
    Certificate(&'a str),
}

/// A machine with a key.
pub struct Machine {
    folder: TempDir,
}

impl Machine {
    /// A machine with a new key.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap();
        let machine = Self { folder };
        machine.openssl(&[
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-out",
            "key.pem",
        ]);
        machine
    }

    /// Runs `openssl` in the folder of the key.
    pub fn openssl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(installed("openssl", "openssl"));
        let output = command.current_dir(self.folder.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes a file next to the key.
    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// The private key, PEM.
    fn key(&self) -> String {
        fs::read_to_string(self.folder.path().join("key.pem")).unwrap()
    }

    /// A certificate request for that user in group `system:nodes`, base64, with alternative names like
    /// `DNS:a,IP:10.0.0.1`.
    pub fn request(&self, user: &str, names: &str) -> String {
        let subject = format!("/O=system:nodes/CN={user}");
        let names = format!("subjectAltName={names}");
        let mut arguments = vec!["req", "-new", "-key", "key.pem", "-out", "request.pem", "-subj", &subject];
        if !names.ends_with('=') {
            arguments.extend(["-addext", &names]);
        }
        self.openssl(&arguments);
        self.openssl(&["base64", "-A", "-in", "request.pem"])
    }

    /// Creates a CertificateSigningRequest with that name. Returns status code and body.
    pub async fn request_certificate(
        &self,
        master: &Master,
        shows: &Shows<'_>,
        (name, signer): (&str, &str),
        request: &str,
    ) -> (u16, Value) {
        let end = if signer == SERVING { "server auth" } else { "client auth" };
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"request": request, "signerName": signer, "usages": ["digital signature", "key encipherment", end]},
        });
        self.sends(master, shows, REQUESTS, Some(&object)).await
    }

    /// A client with the given certificate, if any.
    fn client(&self, master: &Master, shows: &Shows<'_>) -> reqwest::Client {
        let key = self.key();
        let own = match shows {
            Shows::Certificate(certificate) => Some((*certificate, key.as_str())),
            Shows::Nothing | Shows::Token(_) => None,
        };
        trusting(&master.admin().unwrap().authority, own).unwrap()
    }

    /// Sends a JSON merge patch with the machine's certificate. Returns status code and body.
    pub async fn patches(
        &self,
        master: &Master,
        certificate: &str,
        path: &str,
        patch: &Value,
    ) -> (u16, Value) {
        let url = format!("https://127.0.0.1:{}{path}", master.port);
        let request = self.client(master, &Shows::Certificate(certificate)).patch(&url);
        let request = request.header("content-type", "application/merge-patch+json").body(patch.to_string());
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Joins as a node: sends an anonymous certificate request, waits, and returns the certificate (PEM).
    pub async fn joins(&self, master: &Master, name: &str, user: &str) -> String {
        let request = self.request(user, "");
        let (code, made) = self.request_certificate(master, &Shows::Nothing, (name, CLIENT), &request).await;
        assert_eq!(code, 201, "{made}");
        self.is_signed(master, &Shows::Nothing, name).await
    }

    /// Sends a request. Returns status code and body.
    pub async fn sends(
        &self,
        master: &Master,
        shows: &Shows<'_>,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let client = self.client(master, shows);
        let url = format!("https://127.0.0.1:{}{path}", master.port);
        let request = body.map_or_else(|| client.get(&url), |body| client.post(&url).json(body));
        let request = match shows {
            Shows::Token(token) => request.bearer_auth(token),
            Shows::Nothing | Shows::Certificate(_) => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Waits until the request is signed. Returns the certificate and its intermediates, PEM.
    pub async fn is_signed(&self, master: &Master, shows: &Shows<'_>, name: &str) -> String {
        let look = async || {
            let (_, request) = self.sends(master, shows, &format!("{REQUESTS}/{name}"), None).await;
            let signed = request["status"]["certificate"].as_str().map(str::to_owned);
            signed.ok_or_else(|| format!("{}", request["status"]))
        };
        let signed = wait_until(DEADLINE, look).await;
        let signed = signed.unwrap_or_else(|seen| panic!("{name}: {seen}\n{}", master.log()));
        self.file("signed.b64", &signed);
        self.openssl(&["base64", "-d", "-A", "-in", "signed.b64", "-out", "signed.pem"]);
        fs::read_to_string(self.folder.path().join("signed.pem")).unwrap()
    }

    /// Waits until the request has a condition of that type. Returns its message.
    pub async fn has_condition(&self, master: &Master, name: &str, kind: &str) -> String {
        let look = async || {
            let (_, text) = master.get_as_admin(&format!("{REQUESTS}/{name}")).await;
            let request: Value = serde_json::from_str(&text).unwrap();
            let all = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = all.iter().find(|condition| condition["type"] == kind);
            found.map(|found| found["message"].as_str().unwrap_or_default().to_owned()).ok_or(text)
        };
        let decision = wait_until(DEADLINE, look).await;
        decision.unwrap_or_else(|seen| panic!("{name} is not {kind}: {seen}\n{}", master.log()))
    }
}

/// Runs kubectl as the administrator.
pub async fn admin(master: &Master, arguments: &str) -> String {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = master.kubectl(&master.data_dir().join("admin.kubeconfig"), &arguments).await;
    assert!(output.code == 0, "kubectl {arguments:?}: {output:?}\n{}", master.log());
    output.stdout
}

/// Creates an object as administrator.
pub async fn make(master: &Master, path: &str, object: &Value) {
    let url = format!("https://127.0.0.1:{}{path}", master.port);
    let response = master.client().post(&url).json(object).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 201, "{}", response.text().await.unwrap());
}

/// Creates a bootstrap token that is valid for an hour, with these additional groups.
pub async fn token(master: &Master, id: &str, groups: &str) -> String {
    let expiration = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "stringData": {
            "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": expiration.to_string(), "auth-extra-groups": groups,
        },
    });
    make(master, "/api/v1/namespaces/kube-system/secrets", &secret).await;
    format!("{id}.0123456789abcdef")
}
