//! `kubelet kubeconfig` and `kubelet metrics-certificate`: credentials for the API of this node. Its own CA signs them.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::client::transport;
use anyhow::{Context as _, bail};
use apiserver::identity::{MASTERS, MONITORING};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

use super::args::{Kubeconfig, MetricsCertificate, Ui};
use super::client::{Client, Error};
use super::print::{self, note};
use crate::local_ca::{Files, LocalCa, Signed, write_new};
use crate::options::{CLUSTER_AUTHORITIES, VIEWERS};

/// Default port of the HTTPS server, as of the stock kubelet.
const PORT: u64 = 10250;
/// How long the command waits until the running kubelet has loaded a new CA. Without file events it takes up to a minute.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Name of the cluster in the kubeconfig of a node whose name is not known, because its kubelet does not run here.
const CLUSTER: &str = "node";

/// Runs `kubelet metrics-certificate`.
///
/// # Errors
/// If the CA cannot be used, or the file exists or cannot be written.
pub fn metrics_certificate(root_dir: &Path, arguments: &MetricsCertificate) -> anyhow::Result<ExitCode> {
    let ca = LocalCa::open_or_create(&Files::of(root_dir), today())?;
    let signed = ca.sign_client(&arguments.name, MONITORING, today(), arguments.days)?;
    write_new(&arguments.file, &format!("{}{}", signed.certificate, signed.key), 0o600)?;
    let file = arguments.file.display();
    note(format_args!(
        "{file} holds the certificate and the key of {}; the kubelet on {} accepts it within 5 s:\n  \
         curl -k --cert {file} https://localhost:10250/metrics",
        arguments.name,
        root_dir.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Runs `kubelet kubeconfig`: prints a kubeconfig with a new client certificate.
///
/// # Errors
/// If the CA cannot be used, the kubelet does not serve HTTPS, or the output cannot be written.
pub async fn kubeconfig(
    client: &Client,
    root_dir: &Path,
    arguments: &Kubeconfig,
) -> anyhow::Result<ExitCode> {
    if !root_dir.is_dir() {
        bail!("{} does not exist; --root-dir names the root directory of the kubelet", root_dir.display());
    }
    let given = arguments.certificate_authority.as_deref().map(certificates_in).transpose()?;
    let running = match &arguments.server {
        Some(_) => None,
        None => configuration(client, given.is_none()).await?,
    };
    let server = match &arguments.server {
        Some(server) => server.clone(),
        None => server_url(running.as_ref().unwrap_or(&Value::Null))?,
    };
    let (group, default_name) =
        if arguments.read_only { (VIEWERS, "node-viewer") } else { (MASTERS, "node-admin") };
    let name = arguments.name.as_deref().unwrap_or(default_name);
    let files = Files::of(root_dir);
    let ca = LocalCa::open_or_create(&files, today())?;
    let signed = ca.sign_client(name, group, today(), arguments.days)?;
    let authorities = match given {
        Some(certificates) => certificates,
        None => authorities(root_dir, &files)?,
    };
    let mut node = None;
    if running.is_some() {
        if !is_accepted(&server, &authorities, &signed).await? {
            bail!(
                "{server} does not accept the new certificate: the log of the kubelet says why, for example because \
                 another program uses the port"
            );
        }
        node = node_name(client).await?;
    }
    let node = node.as_deref().unwrap_or(CLUSTER);
    let text = print::yaml::document(&file(&server, &authorities, (name, node), &signed));
    match &arguments.output {
        Some(path) => write_new(path, &text, 0o600)?,
        None => print::out(text.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `kubelet ui`: prints the URL of the page with a token of a viewer in its fragment, which browsers do not send.
///
/// # Errors
/// If the CA cannot be used, the kubelet does not serve HTTPS, or the output cannot be written.
pub async fn ui(client: &Client, root_dir: &Path, arguments: &Ui) -> anyhow::Result<ExitCode> {
    if !root_dir.is_dir() {
        bail!("{} does not exist; --root-dir names the root directory of the kubelet", root_dir.display());
    }
    let server = match &arguments.server {
        Some(server) => server.clone(),
        None => server_url(configuration(client, false).await?.as_ref().unwrap_or(&Value::Null))?,
    };
    let ca = LocalCa::open_or_create(&Files::of(root_dir), today())?;
    let lifetime = SignedDuration::from_hours(i64::from(arguments.hours));
    let token = ca.sign_viewer_token(Timestamp::now(), lifetime);
    let token = token.map_err(|error| anyhow::anyhow!("the key of the node's own CA {error}"))?;
    print::out(format!("{server}/ui/#token={token}\n").as_bytes())?;
    note(format_args!(
        "the URL gives read access, except to Secrets, for {} h; the CA certificate of the node is {}",
        arguments.hours,
        Files::of(root_dir).certificate.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Waits until the running kubelet has loaded the CA, so that the kubeconfig works at once. Returns whether it did in time.
async fn is_accepted(server: &str, authorities: &[u8], signed: &Signed) -> anyhow::Result<bool> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(authority?)?;
    }
    let chain = vec![CertificateDer::from_pem_slice(signed.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = tls.with_root_certificates(roots).with_client_auth_cert(chain, key)?;
    // A connection keeps the trust of its handshake, so each request needs a new one.
    let http = transport::builder(tls).no_proxy().pool_max_idle_per_host(0).build()?;
    let accepted = async {
        loop {
            let answer = http.get(format!("{server}/version")).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    };
    Ok(tokio::time::timeout(ACCEPT_TIMEOUT, accepted).await.is_ok())
}

/// The certificates in a PEM file, without the private keys that may be beside them.
fn certificates_in(path: &Path) -> anyhow::Result<Vec<u8>> {
    let pem = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut blocks = String::new();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.with_context(|| format!("{} is damaged", path.display()))?;
        let body = STANDARD.encode(&certificate);
        blocks.push_str(&format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"));
    }
    if blocks.is_empty() {
        bail!("{} contains no certificate (-----BEGIN CERTIFICATE-----)", path.display());
    }
    Ok(blocks.into_bytes())
}

/// The CAs that can have signed the serving certificate: the node's own CA, and that of the cluster if the node has joined
/// one.
fn authorities(root_dir: &Path, files: &Files) -> anyhow::Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut bundle = read(&files.certificate)?;
    let of_cluster = root_dir.join("pki").join(CLUSTER_AUTHORITIES);
    if of_cluster.exists() {
        bundle.push(b'\n');
        bundle.extend(read(&of_cluster)?);
    }
    Ok(bundle)
}

/// The KubeletConfiguration of the running kubelet, or `None` if none runs. `needs_ca` says that no CA is given for its
/// serving certificate.
async fn configuration(client: &Client, needs_ca: bool) -> anyhow::Result<Option<Value>> {
    let answer = match client.json("/configz", "application/json").await {
        Ok(answer) => answer,
        Err(error @ Error::NotRunning { .. }) => {
            note(format_args!("{error}\nassuming port {PORT}; --server names another URL"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let configuration = answer["kubeletconfig"].clone();
    if needs_ca && configuration["tlsCertFile"].as_str().is_some_and(|path| !path.is_empty()) {
        bail!(
            "the kubelet runs with --tls-cert-file: name the CA of this certificate with --certificate-authority"
        );
    }
    Ok(Some(configuration))
}

/// URL of the HTTPS server by the KubeletConfiguration.
fn server_url(configuration: &Value) -> anyhow::Result<String> {
    let port = configuration["port"].as_u64().unwrap_or(PORT);
    if port == 0 {
        bail!("the kubelet serves no HTTPS (--port 0): restart it with a port, or name a URL with --server");
    }
    let address = configuration["address"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let host = match address.filter(|address| !address.is_unspecified()) {
        Some(IpAddr::V6(address)) => format!("[{address}]"),
        Some(IpAddr::V4(address)) => address.to_string(),
        None => "127.0.0.1".to_owned(),
    };
    Ok(format!("https://{host}:{port}"))
}

/// The name of the running kubelet's node. Kubeconfigs of several nodes can be merged, so their entries need different names.
async fn node_name(client: &Client) -> anyhow::Result<Option<String>> {
    let nodes = client.json("/api/v1/nodes", "application/json").await?;
    Ok(nodes["items"][0]["metadata"]["name"].as_str().map(str::to_owned))
}

fn file(server: &str, authorities: &[u8], (user, node): (&str, &str), signed: &Signed) -> Value {
    let entry = format!("{user}@{node}");
    let cluster = json!({"server": server, "certificate-authority-data": STANDARD.encode(authorities)});
    let credentials = json!({
        "client-certificate-data": STANDARD.encode(&signed.certificate),
        "client-key-data": STANDARD.encode(&signed.key),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": node, "cluster": cluster}],
        "users": [{"name": entry, "user": credentials}],
        "contexts": [{"name": entry, "context": {"cluster": node, "user": entry}}],
        "current-context": entry,
    })
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    //! Tests of the URL of the server.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn server_url_has_the_configured_address_and_port() {
        for (configuration, expected) in [
            (Value::Null, "https://127.0.0.1:10250"),
            (json!({"port": 10350, "address": "0.0.0.0"}), "https://127.0.0.1:10350"),
            (json!({"port": 10250, "address": "192.0.2.7"}), "https://192.0.2.7:10250"),
            (json!({"address": "2001:db8::7"}), "https://[2001:db8::7]:10250"),
            (json!({"address": "::"}), "https://127.0.0.1:10250"),
        ] {
            assert_eq!(server_url(&configuration).unwrap(), expected);
        }
        assert!(server_url(&json!({"port": 0})).unwrap_err().to_string().contains("--port 0"));
    }

    #[test]
    fn private_keys_beside_certificates_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.pem");
        let pair = rcgen::generate_simple_self_signed(["n1".to_owned()]).unwrap();
        fs::write(&path, format!("{}{}", pair.signing_key.serialize_pem(), pair.cert.pem())).unwrap();
        let copied = certificates_in(&path).unwrap();
        assert_eq!(CertificateDer::from_pem_slice(&copied).unwrap(), *pair.cert.der());
        assert!(!String::from_utf8(copied).unwrap().contains("PRIVATE KEY"));
        fs::write(&path, pair.signing_key.serialize_pem()).unwrap();
        assert!(certificates_in(&path).unwrap_err().to_string().contains("contains no certificate"));
    }
}
