//! Compiles the pause process of sandboxes, which the kubelet binary contains, and the settings of the binary's
//! allocator.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=pause/pause.c");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
    // The `cc` crate finds the compiler, also for cross-compilation. The flags for linking are set here.
    let mut compile = cc::Build::new().opt_level_str("s").debug(false).get_compiler().to_command();
    compile
        .args(["-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie", "-s"])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror"])
        // These flags make the binary small and reproducible, so that the image id is the same everywhere.
        .args(["-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"])
        .arg("-o")
        .arg(Path::new(&out).join("pause"))
        .arg("pause/pause.c");
    let done = compile
        .status()
        .expect("a C compiler is needed to build the sandbox's process: install gcc or clang");
    assert!(done.success(), "pause/pause.c did not compile: {compile:?}");
    allocator();
}

/// Compiles the settings of the allocator to an object that is linked into the binary.
fn allocator() {
    const SOURCE: &str = "allocator/settings.c";
    println!("cargo::rerun-if-changed={SOURCE}");
    for object in cc::Build::new().file(SOURCE).compile_intermediates() {
        println!("cargo::rustc-link-arg-bin=kubelet={}", object.display());
    }
}
