//! Hollow nodes: many real kubelets in one process. Each has its own certificate, directory and in-memory container
//! engine.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use kubelet::options::{Bootstrap, Cluster, Join, Options};
use kubelet::runtime::fake::Fake;
use kubelet::startup::hollow::{self, HollowKubelet};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// An image that every hollow node has.
pub use kubelet::runtime::fake::IMAGE as HOLLOW_IMAGE;

/// Directory of a memory file system.
const MEMORY: &str = "/dev/shm";
/// Maximum number of attempts to remove the folder while kubelets still write to it.
const TRIES: usize = 1000;
/// Number of threads that all hollow nodes share.
const THREADS: usize = 2;

/// Hollow nodes that run on separate threads of this process until the value is dropped.
pub struct HollowNodes {
    runtime: Option<Runtime>,
    folder: Option<TempDir>,
    _kubelets: Vec<HollowKubelet>,
}

impl Drop for HollowNodes {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
        // Pending work may still write files during the removal, so retry.
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
    /// Starts nodes with the given names, which all join with the given join string.
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
            hollow::start(options, Arc::new(Fake::long_running(&name))).unwrap()
        };
        let kubelets = names.into_iter().enumerate().map(begin).collect();
        drop(entered);
        Self { runtime: Some(runtime), folder: Some(folder), _kubelets: kubelets }
    }
}

/// Returns the options of a hollow kubelet. Its address is unique and unreachable.
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
