//! Finds the binaries under test.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

/// Returns the path of a workspace binary that `cargo build` produced. An environment variable such as
/// `CORACLE_KUBELET` overrides the path.
///
/// Panics if the binary is older than its sources, because the test would run old code.
pub fn binary(name: &str) -> PathBuf {
    if let Some(path) = env::var_os(format!("CORACLE_{}", name.to_uppercase())) {
        return path.into();
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), |path| top.join(path));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let path = target.join(profile).join(name);
    let built = fs::metadata(&path)
        .unwrap_or_else(|_| panic!("{} is not there: run `cargo build --workspace` first", path.display()))
        .modified()
        .unwrap();
    for crate_folder in [name, "api", "apiserver"] {
        if let Some(newer) = newer_source(&top.join(crate_folder).join("src"), built) {
            panic!(
                "{} is newer than {}: run `cargo build --workspace` first",
                newer.display(),
                path.display()
            );
        }
    }
    path
}

/// Returns the path of a program of a Debian package: from the PATH, or from the directory where `hack/setup.sh
/// test` unpacked it.
pub fn installed(package: &str, program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let unpacked = top.join("target/setup").join(package).join("usr/bin").join(program);
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .chain([unpacked])
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{program} is missing: run hack/setup.sh test"))
}

/// Returns a source file that changed after the binary was built.
fn newer_source(folder: &Path, built: SystemTime) -> Option<PathBuf> {
    fs::read_dir(folder).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        // Unit tests are not compiled into the binary.
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            return None;
        }
        if path.is_dir() {
            return newer_source(&path, built);
        }
        let is_source = path.extension().is_some_and(|e| e == "rs");
        (is_source && fs::metadata(&path).unwrap().modified().unwrap() > built).then_some(path)
    })
}
