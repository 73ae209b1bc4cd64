//! The sandbox's image, carried in the kubelet's own binary so that no registry is needed for it.

use std::io;
use std::sync::LazyLock;

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::Docker;
use super::errors::{ASK, WORK, within};
use crate::runtime::Error;

/// The program, from `kubelet/pause/pause.c`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pause"));

/// An image as `docker load` takes it; the same bytes, and so the same id, from every build.
struct Archive {
    name: String,
    tar: Bytes,
}

static ARCHIVE: LazyLock<Archive> =
    LazyLock::new(|| archive(PROGRAM).expect("writing to memory does not fail"));

/// The name of the built-in sandbox image.
pub fn pause_image() -> &'static str {
    &ARCHIVE.name
}

/// Loads the built-in image, once at a time.
#[derive(Default)]
pub(super) struct Pause {
    loading: Mutex<()>,
}

impl Pause {
    /// Gives the image to the engine unless it is there.
    pub(super) async fn load(&self, docker: &Docker) -> Result<(), Error> {
        let _one_at_a_time = self.loading.lock().await;
        let name = pause_image();
        let client = docker.client().await?;
        match within(ASK, "inspect the image", name, client.inspect_image(name)).await {
            Ok(_) => return Ok(()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let options = bollard::query_parameters::ImportImageOptions { quiet: true, ..Default::default() };
        let progress = client.import_image(options, bollard::body_full(ARCHIVE.tar.clone()), None);
        within(WORK, "load the sandbox image", name, progress.try_for_each(|_| async { Ok(()) })).await
    }
}

fn archive(program: &[u8]) -> io::Result<Archive> {
    let layer = tar(&[("pause", program, 0o755)])?;
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": { "Entrypoint": ["/pause"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))] },
    })
    .to_string();
    let id = digest(config.as_bytes());
    let name = format!("coracle/pause:{}", &id[..12]);
    let config_name = format!("{id}.json");
    let manifest =
        json!([{ "Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"] }]).to_string();
    let tar = tar(&[
        ("layer.tar", &layer, 0o644),
        (&config_name, config.as_bytes(), 0o644),
        ("manifest.json", manifest.as_bytes(), 0o644),
    ])?;
    Ok(Archive { name, tar: tar.into() })
}

fn tar(files: &[(&str, &[u8], u32)]) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, path, *content)?;
    }
    tar.into_inner()
}

fn digest(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[cfg(test)]
mod tests;
