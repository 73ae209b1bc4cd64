//! Runs third-party Python programs with the packages of `tests/requirements.txt`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::{Output, process};

/// A home directory for programs of the virtual environment that `hack/setup.sh test` creates.
#[derive(Debug)]
pub struct Python {
    home: TempDir,
}

impl Python {
    /// Creates a new home directory.
    pub fn new() -> Self {
        Self { home: tempfile::Builder::new().prefix("py").tempdir_in("/tmp").unwrap() }
    }

    /// Home directory with files and caches.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns a command that runs a program of the virtual environment, such as `python`, with this home
    /// directory.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(installed(program));
        command.current_dir(self.home()).env("HOME", self.home()).env("TMPDIR", self.home());
        // Keeps the folder of the scripts free of bytecode files.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a program to its end, with a timeout.
    pub async fn run(&self, command: Command, deadline: Duration) -> Output {
        process::output(command, deadline).await.unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Default for Python {
    fn default() -> Self {
        Self::new()
    }
}

/// Path of a program of the virtual environment.
pub(crate) fn installed(program: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = top.join("target/setup/python/bin").join(program);
    assert!(path.exists(), "{} is missing: run hack/setup.sh test", path.display());
    path
}
