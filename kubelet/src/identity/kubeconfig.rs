//! A kubeconfig: what of it a node goes by, and the one that a node writes. Pure.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::access::Known;

/// What the entries are called that the stock kubelet writes.
const CLUSTER: &str = "default-cluster";
const USER: &str = "default-auth";
const CONTEXT: &str = "default-context";
/// The extension of a cluster that holds the hashes of its roots of before; kubectl keeps what it does not know.
const BEFORE: &str = "coracle.io/roots-before";
/// The one that holds the hashes of those of its roots that are on their way out.
const LEAVING: &str = "coracle.io/roots-leaving";

/// Something that stands in a kubeconfig or in a file beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Here.
    Here(Vec<u8>),
    /// There.
    File(PathBuf),
}

/// What a kubeconfig says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The server of the current context first, then the others that have the same authority.
    pub servers: Vec<String>,
    /// The authority.
    pub authority: Data,
    /// The hashes of the authorities that are on their way out, where this node has noted them.
    pub leaving: Vec<String>,
    /// The same of those that the cluster had before.
    pub before: Vec<String>,
    /// Certificate and key of the user.
    pub certificate: Option<(Data, Data)>,
    /// The user's token.
    pub token: Option<Data>,
}

impl Kubeconfig {
    /// Reads one; `directory` is where it lies, and where relative paths in it begin.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the file.
    pub fn read(text: &[u8], directory: &Path) -> Result<Self, String> {
        let file = api::decode::value(text).map_err(|problem| format!("does not read: {problem}"))?;
        let file = file.ok_or("is empty")?;
        let named = |list: &str, name: &Value| {
            let found = file[list].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
            found.cloned().ok_or_else(|| format!("has no {name} among its {list}"))
        };
        let context = named("contexts", &file["current-context"])?;
        let chosen = &named("clusters", &context["context"]["cluster"])?["cluster"];
        let user = &named("users", &context["context"]["user"])?["user"];
        let data = |from: &Value, name: &str| data(from, name, directory);
        let authority = data(chosen, "certificate-authority")?
            .ok_or("names no certificate-authority: without one the kubelet does not know whom to believe")?;
        let certificate = data(user, "client-certificate")?.zip(data(user, "client-key")?);
        let token = match user["token"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => Some(Data::Here(token.as_bytes().to_vec())),
            None => user["tokenFile"].as_str().map(|path| Data::File(directory.join(path))),
        };
        let server =
            |cluster: &Value| cluster["server"].as_str().map(|text| text.trim_end_matches('/').to_owned());
        let first = server(chosen).ok_or("names no server")?;
        if !super::cluster_info::is_server(&first) {
            return Err(format!("names the server {first:?}, which is no https://HOST:PORT"));
        }
        let mut servers = vec![first];
        for entry in file["clusters"].as_array().into_iter().flatten() {
            let cluster = &entry["cluster"];
            let is_same = data(cluster, "certificate-authority")?.is_some_and(|other| other == authority);
            let other = server(cluster).filter(|other| is_same && super::cluster_info::is_server(other));
            servers.extend(other.filter(|other| !servers.contains(other)));
        }
        let [leaving, before] = [LEAVING, BEFORE].map(|name| noted(chosen, name));
        Ok(Self { servers, authority, leaving, before, certificate, token })
    }

    /// Whether it is one that leads to that file, as those do that a node writes.
    pub fn leads_to(&self, pem: &Path) -> bool {
        let leads = |data: &Data| matches!(data, Data::File(path) if path == pem);
        self.certificate.as_ref().is_some_and(|(certificate, key)| leads(certificate) && leads(key))
    }
}

/// The hashes in the extension of that name.
fn noted(cluster: &Value, name: &str) -> Vec<String> {
    let extensions = cluster["extensions"].as_array().into_iter().flatten();
    let noted = extensions.filter(|extension| extension["name"] == name);
    let hashes = noted.filter_map(|noted| noted["extension"]["sha256"].as_array()).flatten();
    hashes.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `<name>-data` before `<name>`, as kubectl has it.
fn data(from: &Value, name: &str, directory: &Path) -> Result<Option<Data>, String> {
    let field = format!("{name}-data");
    if let Some(text) = from[&field].as_str().filter(|text| !text.is_empty()) {
        let bytes =
            STANDARD.decode(text).map_err(|error| format!("has a {field} that is no base64: {error}"))?;
        return Ok(Some(Data::Here(bytes)));
    }
    let path = from[name].as_str().filter(|path| !path.is_empty());
    Ok(path.map(|path| Data::File(directory.join(path))))
}

/// The file that a node writes: an entry a server with the authorities in it, and the path of its certificate and key.
pub fn text(known: &Known, pem: &Path) -> String {
    let Known { servers, authority, leaving, before, .. } = known;
    let authority = STANDARD.encode(authority);
    let cluster = |server: &String| {
        let mut cluster = json!({"server": server, "certificate-authority-data": authority});
        let noted =
            [(LEAVING, leaving), (BEFORE, before)].into_iter().filter(|(_, hashes)| !hashes.is_empty());
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
    // JSON is YAML.
    format!("{file:#}\n")
}
