//! Waits for a file that is not there yet, whose directories may not be there either: the kernel tells when the next of them comes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::disk;

/// Room for an event with a name of common length, and for a burst of them.
const BUFFER_BYTES: usize = 4096;

/// The next thing that has to come before a file is there.
struct Next {
    /// The directory that it comes into, under watch.
    queue: OwnedFd,
    /// What it is called there.
    name: OsString,
}

/// Returns when that file may be there: it has come, or the next of its directories, or so much time has passed.
pub async fn awaited(path: &Path, at_most: Duration) {
    let whole = path.to_owned();
    let news = async {
        match disk::run(move || watched(&whole)).await {
            Ok(Some(next)) => told(next).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        }
    };
    match tokio::time::timeout(at_most, news).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => {
            tracing::debug!(%error, path = %path.display(), "no news of this path can be had, looking again after a while");
            tokio::time::sleep(at_most).await;
        }
    }
}

/// What is missing in the directory nearest to the file; `None` where the file, or a nearer directory, has come meanwhile.
fn watched(path: &Path) -> io::Result<Option<Next>> {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let flags = WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let mut below = path;
    for directory in path.ancestors().skip(1) {
        // A path without a beginning is one of the kubelet's own directory.
        let own = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        match inotify::add_watch(&queue, own, flags) {
            Ok(_) => {
                let name = below.file_name().unwrap_or_default().to_owned();
                return Ok((!below.try_exists()?).then_some(Next { queue, name }));
            }
            Err(rustix::io::Errno::NOENT) => below = directory,
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Waits until it comes, or its directory goes; what else comes into that, which may be everybody's, is no news.
async fn told(Next { queue, name }: Next) -> io::Result<()> {
    #[expect(deprecated, reason = "its successor is unsafe; what it asks for, an OwnedFd keeps by its type")]
    let queue = AsyncFd::with_interest(queue, Interest::READABLE)?;
    loop {
        let mut ready = queue.readable().await?;
        // Otherwise not yet.
        if let Ok(come) = ready.try_io(|queue| has_come(queue.get_ref(), &name)) {
            return come;
        }
    }
}

/// Reads what was told, up to that.
///
/// # Errors
/// `WouldBlock` when there was none of it.
fn has_come(queue: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut events = Reader::new(queue, &mut buffer);
    loop {
        let event = events.next()?;
        // What has no name is about the directory, or says that events were lost.
        let is_it = event.file_name().is_none_or(|came| came.to_bytes() == name.as_bytes());
        if is_it && !event.events().contains(ReadFlags::IGNORED) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    //! A file is told of whichever of its directories are there.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    /// Longer than any test may take: what returns before was told.
    const NEVER: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn each_directory_on_the_way_and_the_file_are_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("var/lib/file");
        let steps: [&dyn Fn(); 3] = [
            &|| fs::create_dir(folder.path().join("var")).unwrap(),
            &|| fs::create_dir(folder.path().join("var/lib")).unwrap(),
            &|| {
                fs::write(folder.path().join("whole"), "").unwrap();
                fs::rename(folder.path().join("whole"), &path).unwrap();
            },
        ];
        for step in steps {
            let next = watched(&path).unwrap().unwrap();
            step();
            told(next).await.unwrap();
        }
        assert!(watched(&path).unwrap().is_none());
        awaited(&path, NEVER).await;
    }

    #[tokio::test]
    async fn what_else_comes_beside_it_is_no_news() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["file", "var/lib/file"] {
            let path = folder.path().join(path);
            let Next { queue, name } = watched(&path).unwrap().unwrap();
            for other in ["fil", "file.tmp", "lib", "va"] {
                fs::write(folder.path().join(other), "").unwrap();
                fs::remove_file(folder.path().join(other)).unwrap();
                let come = has_come(&queue, &name).unwrap_err();
                assert_eq!(come.kind(), io::ErrorKind::WouldBlock, "{other}");
            }
            // Both in one reading.
            fs::write(folder.path().join("other"), "").unwrap();
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            has_come(&queue, &name).unwrap();
        }
    }

    #[tokio::test]
    async fn that_its_directory_goes_is_news() {
        let folder = tempfile::tempdir().unwrap();
        let near = folder.path().join("near");
        fs::create_dir(&near).unwrap();
        let next = watched(&near.join("file")).unwrap().unwrap();
        fs::remove_dir(&near).unwrap();
        told(next).await.unwrap();
    }
}
