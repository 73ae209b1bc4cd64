//! A fake clock for programs under test. A test can set it forward and back while they run, without touching the
//! system clock.
//!
//! Time namespaces shift only monotonic and boot-time clocks. Therefore libfaketime is preloaded and adds the
//! offset from a file to the time of day.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

/// Path of the library in its Debian package.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// A fake clock. Its clones share one offset.
#[derive(Clone, Debug)]
pub struct Clock(Arc<TempDir>);

impl Default for Clock {
    fn default() -> Self {
        let clock = Self(Arc::new(tempfile::Builder::new().prefix("co").tempdir_in("/tmp").unwrap()));
        clock.put(0);
        clock
    }
}

impl Clock {
    /// Sets the offset from the system clock, in seconds.
    pub fn put(&self, seconds: i64) {
        let whole = self.0.path().join("incoming");
        fs::write(&whole, format!("{seconds:+}\n")).unwrap();
        fs::rename(whole, self.file()).unwrap();
    }

    /// Environment variables that make a program use this clock.
    pub fn environment(&self) -> Vec<(String, String)> {
        [
            ("LD_PRELOAD", library().display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            // Only the time of day is faked: durations and file times stay real.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("clock")
    }
}

/// Returns the path of the library: installed, or unpacked by `hack/setup.sh test`.
fn library() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    [PathBuf::from("/"), top.join("target/setup/libfaketime")]
        .map(|root| root.join("usr/lib").join(&triplet).join(LIBRARY))
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("libfaketime is missing: run hack/setup.sh test"))
}
