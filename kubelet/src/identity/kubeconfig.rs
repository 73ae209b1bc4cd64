//! Parses the parts of a kubeconfig that the node uses, and formats the node's own kubeconfig. Pure.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::access::ClusterAccess;

/// Entry names as the stock kubelet writes them.
const CLUSTER: &str = "default-cluster";
const USER: &str = "default-auth";
const CONTEXT: &str = "default-context";
/// The cluster extension with the hashes of former CAs. kubectl preserves unknown extensions.
const FORMER: &str = "coracle.io/roots-before";
/// The cluster extension with the hashes of retiring CAs.
const RETIRING: &str = "coracle.io/roots-leaving";

/// Data of a kubeconfig, either inline or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// The data itself.
    Here(Vec<u8>),
    File(PathBuf),
}

/// The parts of a kubeconfig that the node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The server of the current context, followed by the other servers with the same CA.
    pub servers: Vec<String>,
    /// The CA bundle.
    pub authority: Data,
    /// The hashes of retiring CAs; empty if the file does not have them.
    pub retiring: Vec<String>,
    /// The hashes of former CAs; empty if the file does not have them.
    pub former: Vec<String>,
    /// Certificate and key of the user.
    pub certificate: Option<(Data, Data)>,
    /// The user's token.
    pub token: Option<Data>,
}

impl Kubeconfig {
    /// Parses a kubeconfig. Relative paths start at `directory`.
    ///
    /// # Errors
    /// If the text is invalid. The error starts with a verb, so that the caller can prepend the file name.
    pub fn read(text: &[u8], directory: &Path) -> Result<Self, String> {
        let file = api::decode::value(text).map_err(|problem| format!("cannot be parsed: {problem}"))?;
        let file = file.ok_or("is empty")?;
        let named = |list: &str, name: &Value| {
            let found = file[list].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
            found.cloned().ok_or_else(|| format!("has no {name} among its {list}"))
        };
        let context = named("contexts", &file["current-context"])?;
        let chosen = &named("clusters", &context["context"]["cluster"])?["cluster"];
        let user = &named("users", &context["context"]["user"])?["user"];
        let data = |from: &Value, name: &str| data(from, name, directory);
        let authority = data(chosen, "certificate-authority")?.ok_or(
            "names no certificate-authority: without one the kubelet cannot authenticate the server",
        )?;
        let certificate = data(user, "client-certificate")?.zip(data(user, "client-key")?);
        let token = match user["token"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => Some(Data::Here(token.as_bytes().to_vec())),
            None => user["tokenFile"].as_str().map(|path| Data::File(directory.join(path))),
        };
        let server =
            |cluster: &Value| cluster["server"].as_str().map(|text| text.trim_end_matches('/').to_owned());
        let first = server(chosen).ok_or("names no server")?;
        if !super::cluster_info::is_server(&first) {
            return Err(format!("names the server {first:?}, which is not https://HOST:PORT"));
        }
        let mut servers = vec![first];
        for entry in file["clusters"].as_array().into_iter().flatten() {
            let cluster = &entry["cluster"];
            let is_same = data(cluster, "certificate-authority")?.is_some_and(|other| other == authority);
            let other = server(cluster).filter(|other| is_same && super::cluster_info::is_server(other));
            servers.extend(other.filter(|other| !servers.contains(other)));
        }
        let [retiring, former] = [RETIRING, FORMER].map(|name| noted(chosen, name));
        Ok(Self { servers, authority, retiring, former, certificate, token })
    }

    /// Whether certificate and key are both in the file `pem`, as in a kubeconfig that a node wrote.
    pub fn leads_to(&self, pem: &Path) -> bool {
        let leads = |data: &Data| matches!(data, Data::File(path) if path == pem);
        self.certificate.as_ref().is_some_and(|(certificate, key)| leads(certificate) && leads(key))
    }
}

/// The hashes in the extension `name` of a cluster.
fn noted(cluster: &Value, name: &str) -> Vec<String> {
    let extensions = cluster["extensions"].as_array().into_iter().flatten();
    let noted = extensions.filter(|extension| extension["name"] == name);
    let hashes = noted.filter_map(|noted| noted["extension"]["sha256"].as_array()).flatten();
    hashes.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reads `<name>-data`, or the path in `<name>`. As in kubectl, the former takes precedence.
fn data(from: &Value, name: &str, directory: &Path) -> Result<Option<Data>, String> {
    let field = format!("{name}-data");
    if let Some(text) = from[&field].as_str().filter(|text| !text.is_empty()) {
        let bytes =
            STANDARD.decode(text).map_err(|error| format!("has a {field} that is not base64: {error}"))?;
        return Ok(Some(Data::Here(bytes)));
    }
    let path = from[name].as_str().filter(|path| !path.is_empty());
    Ok(path.map(|path| Data::File(directory.join(path))))
}

/// The node's own kubeconfig. It has one entry per server with the CAs inline, and the path of the certificate with
/// its key.
pub fn text(known: &ClusterAccess, pem: &Path) -> String {
    let ClusterAccess { servers, authority, retiring, former, .. } = known;
    let authority = STANDARD.encode(authority);
    let cluster = |server: &String| {
        let mut cluster = json!({"server": server, "certificate-authority-data": authority});
        let noted =
            [(RETIRING, retiring), (FORMER, former)].into_iter().filter(|(_, hashes)| !hashes.is_empty());
        let noted: Vec<Value> =
            noted.map(|(name, hashes)| json!({"name": name, "extension": {"sha256": hashes}})).collect();
        if !noted.is_empty() {
            cluster["extensions"] = noted.into();
        }
        cluster
    };
    let numbered = |name: &str, index: usize| match index {
        0 => name.to_owned(),
        _ => format!("{name}-{}", index + 1),
    };
    let clusters: Vec<Value> = servers
        .iter()
        .enumerate()
        .map(|(index, server)| json!({"name": numbered(CLUSTER, index), "cluster": cluster(server)}))
        .collect();
    let contexts: Vec<Value> = (0..servers.len())
        .map(|index| {
            json!({
                "name": numbered(CONTEXT, index),
                "context": {"cluster": numbered(CLUSTER, index), "user": USER, "namespace": "default"},
            })
        })
        .collect();
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": [{"name": USER, "user": {"client-certificate": pem, "client-key": pem}}],
        "contexts": contexts,
        "current-context": CONTEXT,
    });
    // JSON is valid YAML.
    format!("{file:#}\n")
}
