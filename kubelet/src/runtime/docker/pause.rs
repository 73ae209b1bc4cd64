//! The built-in pause image. The binary contains it, so that sandboxes need no registry.

use std::io;
use std::sync::LazyLock;

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::Docker;
use super::errors::{QUERY_TIMEOUT, WORK_TIMEOUT, with_timeout};
use crate::runtime::Error;

/// The executable, from `kubelet/pause/pause.c`.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pause"));

/// An image archive for `docker load`. Every build produces the same bytes and the same image id.
struct Archive {
    name: String,
    tar: Bytes,
}

static ARCHIVE: LazyLock<Archive> =
    LazyLock::new(|| archive(PROGRAM).expect("writing to memory does not fail"));

/// The name of the built-in pause image.
pub fn pause_image() -> &'static str {
    &ARCHIVE.name
}

/// Loads the pause image, one load at a time.
#[derive(Default)]
pub(super) struct Pause {
    loading: Mutex<()>,
}

impl Pause {
    /// Loads the image unless the engine has it.
    pub(super) async fn load(&self, docker: &Docker) -> Result<(), Error> {
        let _one_at_a_time = self.loading.lock().await;
        let name = pause_image();
        let client = docker.client().await?;
        match with_timeout(QUERY_TIMEOUT, "inspect the image", name, client.inspect_image(name)).await {
            Ok(_) => return Ok(()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let options = bollard::query_parameters::ImportImageOptions { quiet: true, ..Default::default() };
        let progress = client.import_image(options, bollard::body_full(ARCHIVE.tar.clone()), None);
        with_timeout(
            WORK_TIMEOUT,
            "load the sandbox image",
            name,
            progress.try_for_each(|_| async { Ok(()) }),
        )
        .await
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
mod tests {
    //! Tests of the built-in pause image.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn pause_image_is_reproducible() {
        let (one, two) = (archive(b"program").unwrap(), archive(b"program").unwrap());
        assert_eq!((&one.name, &one.tar), (&two.name, &two.tar));
        assert_ne!(one.name, archive(b"another").unwrap().name);
    }

    #[test]
    fn pause_program_is_a_small_elf_file() {
        assert!(PROGRAM.starts_with(b"\x7fELF"));
        assert!(PROGRAM.len() < 8 * 1024, "{} bytes", PROGRAM.len());
        assert!(ARCHIVE.tar.len() < 32 * 1024);
    }
}
