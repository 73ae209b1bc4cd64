//! Nodes without engines, many in one process: real kubelets, each with a certificate, a directory and an engine in memory of its own.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use kubelet::options::{Bootstrap, Cluster, Join, Options};
use kubelet::runtime::fake::Fake;
use kubelet::server::RootDir;
use kubelet::wiring;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// An image that each of them has.
pub use kubelet::runtime::fake::IMAGE as HOLLOW_IMAGE;

/// Where files are in memory.
const MEMORY: &str = "/dev/shm";
/// How often their folder is removed until nobody writes there any more.
const TRIES: usize = 1000;
/// Threads that all of them share.
const THREADS: usize = 2;

/// Nodes that run in this process until the value goes, on threads of their own.
pub struct HollowNodes {
    runtime: Option<Runtime>,
    folder: Option<TempDir>,
    _directories: Vec<RootDir>,
}

impl Drop for HollowNodes {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
        // What they still had in hand may be written while it goes.
        let path = self.folder.take().map(TempDir::keep).unwrap();
        for _ in 0..TRIES {
            if fs::remove_dir_all(&path).is_ok() {
                return;
            }
            thread::yield_now();
        }
    }
}

impl HollowNodes {
    /// Lets nodes of these names join by that line, all at once.
    pub fn join(line: &str, names: impl IntoIterator<Item = String>) -> Self {
        let (server, pin) = line.split_once("#sha256:").unwrap();
        let join = Join { servers: vec![server.to_owned()], pin: Some(pin.to_owned()) };
        let parent = if Path::new(MEMORY).is_dir() { MEMORY } else { "/tmp" };
        let folder = tempfile::Builder::new().prefix("co").tempdir_in(parent).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap();
        let entered = runtime.enter();
        let begin = |(number, name): (usize, String)| {
            let options = options(&name, number, &join, &folder.path().join(number.to_string()));
            wiring::hollow::begin(options, Arc::new(Fake::lasting(&name))).unwrap()
        };
        let directories = names.into_iter().enumerate().map(begin).collect();
        drop(entered);
        Self { runtime: Some(runtime), folder: Some(folder), _directories: directories }
    }
}

/// What a node is told at its start, with an address that nobody else has and nobody goes to.
fn options(name: &str, number: usize, join: &Join, root_dir: &Path) -> Options {
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 1)) + u32::try_from(number).unwrap());
    let cluster = Cluster {
        bootstrap: Some(Bootstrap::Join(join.clone())),
        kubeconfig: root_dir.join("kubeconfig"),
        serving: false,
    };
    Options {
        node_ip: Some(address.into()),
        root_dir: root_dir.to_owned(),
        cert_dir: root_dir.join("pki"),
        cluster: Some(cluster),
        ..Options::new(name)
    }
}
