//! The Kubernetes version that both programs report, in one place. `docs/support.md` says what a new version needs.

/// Defines the constants from the three numbers of the version.
macro_rules! kubernetes_version {
    ($major:literal, $minor:literal, $patch:literal) => {
        /// Major version: `1`.
        pub const MAJOR: &str = stringify!($major);
        /// Minor version: `36`.
        pub const MINOR: &str = stringify!($minor);
        /// Major and minor version, as in the user agents of the kubelet: `1.36`.
        pub const MAJOR_MINOR: &str = concat!($major, ".", $minor);
        /// The version as in `gitVersion`, with the version of this program as build metadata: `v1.36.0+coracle-0.1.0`.
        pub const GIT_VERSION: &str =
            concat!("v", $major, ".", $minor, ".", $patch, "+coracle-", env!("CARGO_PKG_VERSION"));
    };
}

kubernetes_version!(1, 36, 0);
