//! Registry credentials of the node: docker configuration files and credential helpers.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::keyring::{Config, Keyring, read_config};
use super::name::ImageName;
use crate::runtime::Credentials;

/// Timeout of a credential helper. Some helpers call a cloud API.
const HELPER_LIMIT: Duration = Duration::from_secs(30);

/// Docker Hub's server name in configuration files and for credential helpers.
const DEFAULT_SERVER: &str = "https://index.docker.io/v1/";

/// The node's docker configuration files. They are read for each pull, so that a new login takes effect at once.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeKeys {
    files: Vec<PathBuf>,
}

/// Output of a credential helper.
#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

impl NodeKeys {
    /// Finds `config.json` in the root directory, in `$DOCKER_CONFIG`, in `$HOME/.docker` and in `/.docker`.
    pub(super) fn of(root_dir: &Path) -> Self {
        let named = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker"));
        let folders = [Some(root_dir.to_owned()), named, home, Some(PathBuf::from("/.docker"))];
        let mut files: Vec<PathBuf> =
            folders.into_iter().flatten().map(|folder| folder.join("config.json")).collect();
        files.dedup();
        Self { files }
    }

    /// Credentials for an image, in the order of the files.
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

/// Credentials from one file. A credential helper takes precedence over stored entries, as in docker.
async fn of_config(config: Config, file: &Path, image: &ImageName) -> Vec<Credentials> {
    let mut found = Vec::new();
    let helper = config.helpers.iter().find(|(server, _)| is_server(server, image)).map(|(_, helper)| helper);
    if let Some(name) = helper.or(Some(&config.store)).filter(|name| !name.is_empty()) {
        match run_helper(name, image).await {
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

/// Runs `docker-credential-<name> get`. `None` if the helper has no credentials for the registry.
async fn run_helper(name: &str, image: &ImageName) -> Result<Option<Credentials>, String> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err("its name is not the name of a program".to_owned());
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
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // The helper protocol reports missing credentials by this text, not by the exit code.
        return if text.contains("credentials not found") { Ok(None) } else { Err(text.trim().to_owned()) };
    }
    let Answer { username, secret } = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let server = server.to_owned();
    Ok(Some(match username.as_str() {
        "<token>" => Credentials { identity_token: secret, server, ..Credentials::default() },
        _ => Credentials { username, password: secret, server, ..Credentials::default() },
    }))
}

#[cfg(test)]
mod tests {
    //! Tests of configuration files and credential helpers of a node.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn image(name: &str) -> ImageName {
        ImageName::parse(name).unwrap()
    }

    fn keys(content: &str) -> (tempfile::TempDir, NodeKeys) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, content).unwrap();
        (folder, NodeKeys { files: vec![file, "/no/such/config.json".into()] })
    }

    #[tokio::test]
    async fn docker_config_file_is_parsed() {
        let (_folder, keys) = keys(r#"{"auths": {"quay.io": {"auth": "YTpi"}}, "HttpHeaders": {}}"#);
        let found = keys.find(&image("quay.io/x")).await;
        assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("a", "b"));
        assert!(keys.find(&image("busybox")).await.is_empty());
    }

    #[tokio::test]
    async fn invalid_docker_config_or_helper_gives_no_credentials() {
        let (_folder, keys) = keys("{");
        assert!(keys.find(&image("quay.io/x")).await.is_empty());
        for helper in ["../evil", "no-such-helper"] {
            assert!(run_helper(helper, &image("quay.io/x")).await.is_err());
        }
    }

    #[test]
    fn credential_helper_is_used_only_for_its_registry() {
        assert!(is_server("quay.io", &image("quay.io/x")));
        assert!(is_server("https://index.docker.io/v1/", &image("busybox")));
        assert!(!is_server("quay.io", &image("busybox")));
    }
}
