//! Limits of inotify, directories that vanish and come back, and changes between a read and its watch.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use notify::{Config, EventHandler, RecommendedWatcher, WatcherKind};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Timeout, sufficient on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// Long enough for an event to arrive that must not arrive.
const SHORT: Duration = Duration::from_millis(50);

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(DEADLINE, what).await.unwrap()
}

fn one(directory: &Path, name: &str) -> WatchSet {
    let place = WatchedName { directory: directory.to_owned(), name: name.into() };
    WatchSet { directory: None, places: BTreeSet::from([place]) }
}

/// The set of all names in a directory.
fn all(directory: &Path) -> WatchSet {
    let directory = WatchedDirectory { path: directory.to_owned(), is_relevant: |_| true };
    WatchSet { directory: Some(directory), places: BTreeSet::new() }
}

/// Reads events until the expected one.
async fn until(watcher: &mut FileWatcher, expected: Event) {
    in_time(async { while !watcher.next().await.contains(&expected) {} }).await;
}

/// Writes a file, and checks that the watcher reports it or requests to read again. It requests that after late events
/// about a previous directory at this path.
async fn written(watcher: &mut FileWatcher, watch_set: &WatchSet, path: &Path) {
    fs::write(path, "").unwrap();
    in_time(async {
        loop {
            let events = watcher.next().await;
            let must_read_again = events.contains(&Event::DirectoryGone) && watcher.watch(watch_set);
            if must_read_again || events.contains(&Event::Written(path.to_owned())) {
                return;
            }
        }
    })
    .await;
    // After that, nothing is left of the old directory.
    fs::write(path, "").unwrap();
    until(watcher, Event::Written(path.to_owned())).await;
}

#[tokio::test]
async fn watch_polls_at_the_inotify_instance_limit() {
    let folder = TempDir::new().unwrap();
    let mut watcher = FileWatcher::polling();
    assert!(!watcher.watch(&all(folder.path())));
    assert_eq!(in_time(watcher.next()).await, [Event::Lost]);
    assert_eq!(in_time(watcher.next()).await, [Event::Lost]);
}

/// A watcher that refuses watches beyond a limit, like the kernel at fs.inotify.max_user_watches.
struct Limited {
    inner: RecommendedWatcher,
    left: Arc<AtomicUsize>,
}

impl Watcher for Limited {
    fn new<F: EventHandler>(_: F, _: Config) -> notify::Result<Self> {
        Err(notify::Error::generic("unused"))
    }

    fn watch(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<()> {
        let take = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(notify::Error::new(ErrorKind::MaxFilesWatch));
        }
        self.inner.watch(path, mode)
    }

    fn unwatch(&mut self, path: &Path) -> notify::Result<()> {
        self.inner.unwatch(path)
    }

    fn kind() -> WatcherKind {
        WatcherKind::Inotify
    }
}

#[tokio::test]
async fn watch_polls_at_the_inotify_watch_limit() {
    let folder = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let left = Arc::new(AtomicUsize::new(1));
    let limit = left.clone();
    let mut watcher = FileWatcher::new(Box::new(move |queue| {
        let inner = notify::recommended_watcher(move |event| queue.push(event))?;
        Ok(Box::new(Limited { inner, left: limit.clone() }))
    }));
    assert!(watcher.watch(&all(folder.path())), "the first watch fits");
    let both = WatchSet { places: one(other.path(), "a").places, ..all(folder.path()) };
    assert!(!watcher.watch(&both), "the second does not");
    assert_eq!(in_time(watcher.next()).await, [Event::Lost]);
    left.store(9, Ordering::Relaxed);
    assert!(watcher.watch(&both), "changes during polling were not observed");
    fs::write(other.path().join("a"), "").unwrap();
    until(&mut watcher, Event::Written(other.path().join("a"))).await;
}

#[tokio::test]
async fn new_directory_requires_a_rescan() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("manifests");
    let mut watcher = FileWatcher::default();
    assert!(watcher.watch(&all(&path)), "it does not exist, although the caller has just listed it");
    fs::create_dir(&path).unwrap();
    assert!(watcher.watch(&all(&path)), "files may have been created before the watch");
    assert!(!watcher.watch(&all(&path)));
    // Another directory takes its place; the old one stays elsewhere.
    fs::create_dir(folder.path().join("new")).unwrap();
    fs::rename(&path, folder.path().join("old")).unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    assert!(watcher.watch(&all(&path)), "it is another directory");
    written(&mut watcher, &all(&path), &path.join("a")).await;
}

#[tokio::test]
async fn recreated_directory_is_watched_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a/b");
    let set = || WatchSet { places: one(folder.path(), "a").places, ..all(&path) };
    let mut watcher = FileWatcher::default();
    let ways: [fn(&Path) -> io::Result<()>; 2] = [
        |path| fs::remove_dir_all(path),
        |path| {
            fs::rename(path, path.with_extension("away"))?;
            fs::remove_dir_all(path.with_extension("away"))
        },
    ];
    for parent in [path.clone(), folder.path().join("a")] {
        for vanish in ways {
            fs::create_dir_all(&path).unwrap();
            watcher.watch(&set());
            vanish(&parent).unwrap();
            until(&mut watcher, Event::DirectoryGone).await;
            fs::create_dir_all(&path).unwrap();
            assert!(watcher.watch(&set()));
            written(&mut watcher, &set(), &path.join("file")).await;
        }
    }
}

#[tokio::test]
async fn reads_and_other_names_cause_no_event() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    let mut watcher = FileWatcher::default();
    assert!(watcher.watch(&one(folder.path(), "file")));
    fs::read(&file).unwrap();
    fs::write(folder.path().join("other"), "").unwrap();
    assert!(timeout(SHORT, watcher.next()).await.is_err());
    fs::write(folder.path().join("new"), "").unwrap();
    fs::rename(folder.path().join("new"), &file).unwrap();
    assert_eq!(in_time(watcher.next()).await, [Event::Written(file)]);
}

#[tokio::test]
async fn event_queue_overflow_requires_a_rescan() {
    let queue = EventQueue::default();
    let create = notify::event::EventKind::Create(notify::event::CreateKind::File);
    for _ in 0..=queue::MAX_EVENTS {
        queue.push(Ok(notify::Event::new(create).add_path("/a".into())));
    }
    assert_eq!(queue.take().await.unwrap(), [Event::Lost]);
    queue.push(Ok(notify::Event::new(create).add_path("/b".into())));
    assert_eq!(queue.take().await.unwrap(), [Event::Created("/b".into())]);
    queue.push(Err(notify::Error::generic("broken")));
    assert!(queue.take().await.is_err());
}

#[tokio::test]
async fn waiting_for_a_path_follows_its_missing_directories() {
    for is_polling in [false, true] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("var/lib/file");
        let watcher = if is_polling { FileWatcher::polling() } else { FileWatcher::default() };
        let is_done = AtomicBool::new(false);
        let mut wait = pin!(async {
            wait_until_exists(&path, watcher).await;
            is_done.store(true, Ordering::Relaxed);
        });
        let steps: [&dyn Fn(); 5] = [
            &|| fs::create_dir(folder.path().join("var")).unwrap(),
            &|| fs::create_dir(folder.path().join("var/lib")).unwrap(),
            &|| fs::remove_dir_all(folder.path().join("var")).unwrap(),
            &|| fs::create_dir_all(folder.path().join("var/lib")).unwrap(),
            &|| fs::write(folder.path().join("var/lib/fil"), "").unwrap(),
        ];
        for step in steps {
            step();
            assert!(timeout(SHORT, &mut wait).await.is_err());
            assert!(!is_done.load(Ordering::Relaxed));
        }
        fs::rename(folder.path().join("var/lib/fil"), &path).unwrap();
        in_time(&mut wait).await;
    }
}
