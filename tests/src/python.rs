//! Programs in Python that nobody here wrote, with the clients that `tests/requirements.txt` names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::{Output, process};

/// Somebody with a home of their own, who runs programs of the virtual environment of `hack/setup.sh test`.
#[derive(Debug)]
pub struct Python {
    home: TempDir,
}

impl Python {
    /// Somebody new.
    pub fn new() -> Self {
        Self { home: tempfile::Builder::new().prefix("py").tempdir_in("/tmp").unwrap() }
    }

    /// Where they are, with their files and their caches.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A program of the environment, `python` or another, at home.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(installed(program));
        command.current_dir(self.home()).env("HOME", self.home()).env("TMPDIR", self.home());
        // The folder of the scripts stays as it is.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Waits until a program ends, for so long at most.
    pub async fn run(&self, command: Command, deadline: Duration) -> Output {
        process::output(command, deadline).await.unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Default for Python {
    fn default() -> Self {
        Self::new()
    }
}

/// A program of the environment.
pub(crate) fn installed(program: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = top.join("target/setup/python/bin").join(program);
    assert!(path.exists(), "{} is missing: run hack/setup.sh test", path.display());
    path
}
