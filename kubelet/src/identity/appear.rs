//! Waits for a file that is not there yet, whose directories may not be there either: the kernel tells when the next of them comes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::disk;

/// Room for an event with a name of common length, and for a burst of them.
const BUFFER_BYTES: usize = 4096;

/// Returns when that file may be there: something has come into the directory nearest to it, or so much time has passed.
pub async fn awaited(path: &Path, at_most: Duration) {
    let whole = path.to_owned();
    let news = async {
        match disk::run(move || watched(&whole)).await {
            Ok(Some(queue)) => told(queue).await,
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

/// The directory nearest to the file, under watch; `None` where the file, or a nearer directory, has come meanwhile.
fn watched(path: &Path) -> io::Result<Option<OwnedFd>> {
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
            Ok(_) => return Ok((!below.try_exists()?).then_some(queue)),
            Err(rustix::io::Errno::NOENT) => below = directory,
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Waits for one event at least.
async fn told(queue: OwnedFd) -> io::Result<()> {
    #[expect(deprecated, reason = "its successor is unsafe; what it asks for, an OwnedFd keeps by its type")]
    let queue = AsyncFd::with_interest(queue, Interest::READABLE)?;
    loop {
        let mut ready = queue.readable().await?;
        let read = ready.try_io(|queue| {
            let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
            let event = Reader::new(queue.get_ref(), &mut buffer).next()?.events();
            Ok(!event.contains(ReadFlags::IGNORED))
        });
        match read {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => return Err(error),
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
            let queue = watched(&path).unwrap().unwrap();
            step();
            told(queue).await.unwrap();
        }
        assert!(watched(&path).unwrap().is_none());
        awaited(&path, NEVER).await;
    }
}
