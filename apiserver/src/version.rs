//! The server version, as `/version` returns it.

use std::env::consts::{ARCH, OS};

use api::kubernetes_version::{GIT_VERSION, MAJOR, MINOR};
use serde_json::{Value, json};

/// The version that the API server and the kubelet report.
pub const VERSION: Version = Version { major: MAJOR, minor: MINOR, git_version: GIT_VERSION };

/// The Kubernetes version and the program version.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// Major version.
    pub major: &'static str,
    /// Minor version.
    pub minor: &'static str,
    /// Kubernetes version with the program version, such as `v1.36.0+coracle-0.1.0`.
    pub git_version: &'static str,
}

impl Version {
    /// The response of `/version`. Commit and date are set in release builds; see `build.rs`.
    pub fn document(&self) -> Value {
        let before = self.minor.parse::<u32>().map_or(0, |minor| minor.saturating_sub(1));
        json!({
            "major": self.major,
            "minor": self.minor,
            "emulationMajor": self.major,
            "emulationMinor": self.minor,
            "minCompatibilityMajor": self.major,
            "minCompatibilityMinor": before.to_string(),
            "gitVersion": self.git_version,
            "gitCommit": env!("CORACLE_GIT_COMMIT"),
            "gitTreeState": env!("CORACLE_GIT_TREE_STATE"),
            "buildDate": env!("CORACLE_BUILD_DATE"),
            // rustc version, where stock Kubernetes reports the Go version.
            "goVersion": env!("CORACLE_RUSTC"),
            "compiler": "rustc",
            "platform": format!("{OS}/{}", go_architecture()),
        })
    }
}

/// The name of the architecture in Go and in node labels.
pub fn go_architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    //! Tests of fields of the response.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{VERSION, Version};

    #[test]
    fn no_field_is_empty_and_the_commit_is_hexadecimal() {
        let version = VERSION.document();
        for (field, value) in version.as_object().unwrap() {
            assert!(!value.as_str().unwrap().is_empty(), "{field}");
        }
        let commit = version["gitCommit"].as_str().unwrap();
        assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
        let tree = version["gitTreeState"].as_str().unwrap();
        assert!(["archive", "clean", "dirty"].contains(&tree), "{tree}");
        assert!(version["buildDate"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        assert_eq!(version["minCompatibilityMinor"], (VERSION.minor.parse::<u32>().unwrap() - 1).to_string());
    }

    #[test]
    fn git_version_is_the_kubernetes_version_with_the_program_version() {
        let Version { major, minor, git_version } = VERSION;
        let (kubernetes, program) = git_version.split_once("+coracle-").unwrap();
        assert_eq!(kubernetes, format!("v{major}.{minor}.0"));
        assert_eq!(program, env!("CARGO_PKG_VERSION"));
    }
}
