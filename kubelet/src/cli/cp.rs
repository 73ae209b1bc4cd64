//! `kubelet cp`: copies files to and from a container, with `tar` in the container, as kubectl does.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use ::client::percent_encoded;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::args::Cp;
use super::client::{Client, Error};
use super::pod::ContainerRef;
use super::print::{err, note};
use super::session::{PROTOCOL, connect, frame, outcome};

/// Maximum bytes of an archive per message.
const PIECE_BYTES: usize = 32 * 1024;

/// One side of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A path of this machine.
    Local(PathBuf),
    /// A path in a container.
    Remote { namespace: Option<String>, pod: String, path: String },
}

impl Place {
    /// Parses `[[NAMESPACE/]POD:]PATH`. A text with a `/` or `.` before its first colon may be a local path.
    fn parse(text: &str) -> Result<Self, String> {
        let Some((pod, path)) = text.split_once(':').filter(|(pod, _)| !pod.starts_with(['/', '.'])) else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        let (namespace, pod) = match pod.split('/').collect::<Vec<_>>()[..] {
            [pod] => (None, pod),
            ["pod" | "pods", pod] => (None, pod),
            [namespace, pod] => (Some(namespace.to_owned()), pod),
            _ => return Err(format!("\"{text}\": write [NAMESPACE/]POD:PATH")),
        };
        if pod.is_empty() || path.is_empty() {
            return Err(format!("\"{text}\": filepath can not be empty; write [NAMESPACE/]POD:PATH"));
        }
        Ok(Self::Remote { namespace, pod: pod.to_owned(), path: path.to_owned() })
    }
}

/// Runs the subcommand.
pub async fn run(client: &Client, cp: &Cp) -> anyhow::Result<ExitCode> {
    let [from, to] = [&cp.from, &cp.to].map(|text| Place::parse(text).map_err(anyhow::Error::msg));
    let find = async |namespace: Option<String>, pod: String| {
        let namespace = namespace.unwrap_or_else(|| cp.place.namespace.clone());
        ContainerRef::find(client, &namespace, &pod, cp.container.as_deref()).await
    };
    match (from?, to?) {
        (Place::Local(from), Place::Remote { namespace, pod, path }) => {
            anyhow::ensure!(from.exists(), "{} doesn't exist in local filesystem", from.display());
            upload(client, &find(namespace, pod).await?, &from, &path, cp.no_preserve).await
        }
        (Place::Remote { namespace, pod, path }, Place::Local(to)) => {
            download(client, &find(namespace, pod).await?, &path, &to).await
        }
        (Place::Local(_), Place::Local(_)) => {
            anyhow::bail!("one of src or dest must be a remote file specification")
        }
        (Place::Remote { .. }, Place::Remote { .. }) => {
            anyhow::bail!("src and dest are both in containers: copy the files to this machine first")
        }
    }
}

async fn upload(
    client: &Client,
    container: &ContainerRef,
    from: &Path,
    to: &str,
    no_preserve: bool,
) -> anyhow::Result<ExitCode> {
    let base = from.canonicalize()?.file_name().map(PathBuf::from);
    let base = base.ok_or_else(|| anyhow::anyhow!("{} has no name", from.display()))?;
    // Into a directory, the name stays; otherwise the last part of the target is the new name.
    let mut nothing = tempfile::tempfile()?;
    let is_directory = to.ends_with('/') || {
        let test = ["test", "-d", to];
        exec(client, container, &test, None, &mut nothing, true).await? == ExitCode::SUCCESS
    };
    let target = PathBuf::from(to);
    let (directory, name) = match (is_directory, target.parent(), target.file_name()) {
        (false, Some(parent), Some(name)) => (parent.to_path_buf(), PathBuf::from(name)),
        _ => (target, base),
    };
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.follow_symlinks(false);
    if from.is_dir() {
        archive.append_dir_all(&name, from)?;
    } else {
        archive.append_path_with_name(from, &name)?;
    }
    let mut archive = archive.into_inner()?;
    archive.rewind()?;
    let directory = directory.display().to_string();
    let mut command = vec!["tar", "-xmf", "-"];
    if no_preserve {
        command = vec!["tar", "--no-same-permissions", "--no-same-owner", "-xmf", "-"];
    }
    if !directory.is_empty() {
        command.extend(["-C", &directory]);
    }
    exec(client, container, &command, Some(archive), &mut nothing, false).await
}

async fn download(
    client: &Client,
    container: &ContainerRef,
    from: &str,
    to: &Path,
) -> anyhow::Result<ExitCode> {
    let mut archive = tempfile::tempfile()?;
    let code = exec(client, container, &["tar", "cf", "-", from], None, &mut archive, false).await?;
    archive.rewind()?;
    let source = clean(Path::new(from));
    let to = match (to.is_dir(), source.file_name()) {
        (true, Some(name)) => to.join(name),
        _ => to.to_path_buf(),
    };
    let copied = extract(archive, &source, &to)?;
    anyhow::ensure!(code != ExitCode::SUCCESS || copied > 0, "{from} has no files to copy");
    Ok(code)
}

/// The normal components of a path: without root, `.` and `..`, as `tar` stores it.
fn clean(path: &Path) -> PathBuf {
    path.components().filter(|component| matches!(component, Component::Normal(_))).collect()
}

/// Extracts the entries below `source` to `target`. Entries never leave the target, and links are left out.
/// Returns the number of entries.
fn extract(archive: File, source: &Path, target: &Path) -> anyhow::Result<usize> {
    let mut copied = 0;
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let leaves = path.components().any(|component| component == Component::ParentDir);
        let cleaned = clean(&path);
        let Ok(inside) = cleaned.strip_prefix(source) else { continue };
        if leaves {
            note(format_args!("warning: skipping {}: it is outside of the source", path.display()));
            continue;
        }
        let own = if inside.as_os_str().is_empty() { target.to_path_buf() } else { target.join(inside) };
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            fs::create_dir_all(&own)?;
        } else if kind.is_file() {
            if let Some(parent) = own.parent() {
                fs::create_dir_all(parent)?;
            }
            // A link at this place, of an earlier copy, must not lead the data elsewhere.
            if own.is_symlink() {
                fs::remove_file(&own)?;
            }
            std::io::copy(&mut entry, &mut File::create(&own)?)?;
        } else {
            note(format_args!("warning: skipping {}: it is neither a file nor a directory", path.display()));
            continue;
        }
        copied += 1;
    }
    Ok(copied)
}

/// Runs a command in the container with a file as standard input, and writes its standard output to a file.
async fn exec(
    client: &Client,
    container: &ContainerRef,
    command: &[&str],
    input: Option<File>,
    output: &mut File,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let mut path = format!(
        "{}?container={}&stdin={}&stdout=true&stderr=true",
        container.path("exec"),
        percent_encoded(&container.container),
        input.is_some()
    );
    for word in command {
        path.push_str(&format!("&command={}", percent_encoded(word)));
    }
    let (mut sink, mut messages) = connect(client, &path, PROTOCOL).await?.split();
    let sending = async {
        if let Some(mut input) = input {
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let length = input.read(&mut piece)?;
                let end = frame(255, &[0]);
                let message = if length == 0 { end } else { frame(0, &piece[..length]) };
                // If the command has ended, its status says why.
                if sink.send(message).await.is_err() || length == 0 {
                    break;
                }
            }
        }
        // The connection stays open until the command has ended.
        std::future::pending::<anyhow::Result<ExitCode>>().await
    };
    let receiving = async {
        while let Some(message) = messages.next().await {
            let bytes = match message.map_err(|error| Error::Broken(error.to_string()))? {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => break,
                _ => continue,
            };
            match bytes.split_first() {
                Some((1, rest)) => output.write_all(rest)?,
                Some((2, rest)) if !quiet => err(rest),
                Some((3, rest)) => {
                    let status: Value = serde_json::from_slice(rest)?;
                    let is_failure = status.get("status").and_then(Value::as_str) != Some("Success");
                    return if quiet && is_failure { Ok(ExitCode::FAILURE) } else { outcome(&status) };
                }
                _ => {}
            }
        }
        anyhow::bail!("the kubelet closed the connection; check that it is still running")
    };
    tokio::select! {
        received = receiving => received,
        failed = sending => failed,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of arguments and of the extraction of archives.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::io::Seek as _;
    use std::path::{Path, PathBuf};

    use super::{Place, clean, extract};

    #[test]
    fn places_are_parsed_as_in_kubectl() {
        let remote = |namespace: Option<&str>, pod: &str, path: &str| Place::Remote {
            namespace: namespace.map(str::to_owned),
            pod: pod.to_owned(),
            path: path.to_owned(),
        };
        for (text, expected) in [
            ("a.txt", Place::Local(PathBuf::from("a.txt"))),
            ("./web:1", Place::Local(PathBuf::from("./web:1"))),
            ("/x:y", Place::Local(PathBuf::from("/x:y"))),
            ("web:/www/f", remote(None, "web", "/www/f")),
            ("pod/web:f", remote(None, "web", "f")),
            ("shop/web:/f:g", remote(Some("shop"), "web", "/f:g")),
        ] {
            assert_eq!(Place::parse(text).unwrap(), expected, "{text}");
        }
        for text in ["web:", ":/x", "a/b/c:/x"] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entries_stay_inside_the_target() {
        let directory = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(tempfile::tempfile().unwrap());
        let mut add = |path: &[u8], kind: tar::EntryType, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses such names.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path);
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content).unwrap();
        };
        add(b"www/", tar::EntryType::Directory, b"");
        add(b"www/f", tar::EntryType::Regular, b"1");
        add(b"www/sub/g", tar::EntryType::Regular, b"2");
        add(b"www/../../escaped", tar::EntryType::Regular, b"3");
        add(b"other", tar::EntryType::Regular, b"4");
        add(b"www/link", tar::EntryType::Symlink, b"");
        let mut file = archive.into_inner().unwrap();
        file.rewind().unwrap();
        let target = directory.path().join("out");
        assert_eq!(extract(file, &clean(Path::new("/www")), &target).unwrap(), 3);
        assert_eq!(fs::read(target.join("f")).unwrap(), b"1");
        assert_eq!(fs::read(target.join("sub/g")).unwrap(), b"2");
        assert!(!target.join("link").exists() && !directory.path().join("escaped").exists());
    }
}
