//! The system that the kubelet is compared with: `podman kube play` of the same pod. Podman runs in a separate
//! network namespace and uses its own pause image.

use std::fs;

use futures_util::TryStreamExt as _;
use tempfile::TempDir;
use tests::{Engine, Host, IMAGE};

use crate::clock::{Nanos, now};
use crate::manifests;

/// A podman with separate storage directories.
pub struct Podman {
    folder: TempDir,
    host: Host,
}

impl Podman {
    /// Sets up podman and loads the image of the pods into it.
    pub async fn new(engine: &Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image: Vec<_> = engine.docker().export_image(IMAGE).try_collect().await.unwrap();
        fs::write(folder.path().join("image.tar"), image.concat()).unwrap();
        // Podman uses the same OCI runtime as Docker, and resource limits that an unprivileged process may set.
        let configuration = "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n[engine]\n\
             runtime = \"runc\"\nevents_logger = \"file\"\ncgroup_manager = \"cgroupfs\"\n";
        fs::write(folder.path().join("containers.conf"), configuration).unwrap();
        let podman = Self { folder, host: Host::new().await };
        let image = podman.path("image.tar");
        podman.run(&["load", "--quiet", "--input", &image]);
        // Podman builds its pause image at first use.
        podman.play("first");
        podman
    }

    /// Plays a pod of one container and takes the pod down. Returns the nanoseconds from the command to the start
    /// of the container.
    pub fn play(&self, name: &str) -> Nanos {
        let file = self.path(&format!("{name}.yaml"));
        let manifest = manifests::one_container(name).replace(IMAGE, &format!("localhost/{IMAGE}"));
        fs::write(&file, manifest).unwrap();
        let begin = now();
        self.run(&["kube", "play", &file]);
        let started =
            self.run(&["inspect", &format!("{name}-app"), "--format", "{{.State.StartedAt.UnixNano}}"]);
        self.run(&["kube", "down", &file]);
        started.trim().parse::<Nanos>().unwrap() - begin
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.host.command("podman");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        for (flag, name) in [("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            command.args([flag, &self.path(name)]);
        }
        let output = command.args(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "podman {arguments:?}: {}{printed}",
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }
}
