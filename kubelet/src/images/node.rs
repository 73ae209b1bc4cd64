//! The node's own credentials: docker's configuration files and the helpers they name.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::keyring::{Config, Keyring, read_config};
use super::name::ImageName;
use crate::runtime::Credentials;

/// How long a credential helper may take; some ask a cloud.
const HELPER_LIMIT: Duration = Duration::from_secs(30);

/// How docker calls its own registry in its files and to its helpers.
const DEFAULT_SERVER: &str = "https://index.docker.io/v1/";

/// Where the node's credentials lie. Files are read for each pull, so that a login counts at once.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeKeys {
    files: Vec<PathBuf>,
}

/// What a credential helper answers.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

impl NodeKeys {
    /// `config.json` in the kubelet's directory, in `$DOCKER_CONFIG`, and where docker keeps it.
    pub(super) fn of(root_dir: &Path) -> Self {
        let named = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker"));
        let folders = [Some(root_dir.to_owned()), named, home, Some(PathBuf::from("/.docker"))];
        let mut files: Vec<PathBuf> =
            folders.into_iter().flatten().map(|folder| folder.join("config.json")).collect();
        files.dedup();
        Self { files }
    }

    /// Credentials for an image, those of the first file first.
    pub(super) async fn find(&self, image: &ImageName) -> Vec<Credentials> {
        let mut found = Vec::new();
        for file in &self.files {
            let config = match tokio::fs::read(file).await {
                Ok(content) => read_config(&content),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => Err(error.to_string()),
            };
            match config {
                Ok(config) => found.extend(of_config(config, file, image).await),
                Err(problem) => {
                    tracing::warn!(file = %file.display(), problem, "cannot read registry credentials")
                }
            }
        }
        found
    }
}

/// A helper for the registry goes before what stands in the file, as with docker.
async fn of_config(config: Config, file: &Path, image: &ImageName) -> Vec<Credentials> {
    let mut found = Vec::new();
    let helper = config.helpers.iter().find(|(server, _)| is_server(server, image)).map(|(_, helper)| helper);
    if let Some(name) = helper.or(Some(&config.store)).filter(|name| !name.is_empty()) {
        match ask(name, image).await {
            Ok(credentials) => found.extend(credentials),
            Err(problem) => tracing::warn!(helper = name, %image, problem, "a credential helper failed"),
        }
    }
    let mut keyring = Keyring::default();
    if let Err(problem) = keyring.add(config.auths) {
        tracing::warn!(file = %file.display(), problem, "cannot read registry credentials");
    }
    found.extend(keyring.find(image));
    found
}

fn is_server(server: &str, image: &ImageName) -> bool {
    let host = server.split_once("://").map_or(server, |(_, rest)| rest).trim_end_matches('/');
    host == image.registry || image.is_in_default_registry() && host.starts_with("index.docker.io")
}

/// Asks `docker-credential-<name>`; `None` when it has none for that registry.
async fn ask(name: &str, image: &ImageName) -> Result<Option<Credentials>, String> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err("its name is not one of a program".to_owned());
    }
    let server = if image.is_in_default_registry() { DEFAULT_SERVER } else { &image.registry };
    let mut helper = Command::new(format!("docker-credential-{name}"));
    helper.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let run = async {
        let mut process = helper.spawn()?;
        if let Some(mut input) = process.stdin.take() {
            input.write_all(server.as_bytes()).await?;
        }
        process.wait_with_output().await
    };
    let output = match tokio::time::timeout(HELPER_LIMIT, run).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer within {} seconds", HELPER_LIMIT.as_secs())),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // Part of the helpers' protocol: the words, not the exit code, tell that there is nothing.
        return if said.contains("credentials not found") { Ok(None) } else { Err(said.trim().to_owned()) };
    }
    let Answer { username, secret } = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let server = server.to_owned();
    Ok(Some(match username.as_str() {
        "<token>" => Credentials { identity_token: secret, server, ..Credentials::default() },
        _ => Credentials { username, password: secret, server, ..Credentials::default() },
    }))
}

#[cfg(test)]
mod tests;
