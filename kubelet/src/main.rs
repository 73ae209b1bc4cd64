//! The `kubelet` command.

use tikv_jemallocator::Jemalloc;

/// What many pods need for a moment lies scattered among what stays, and the allocator of the C library keeps a third as much again
/// for it, and some for each thread. `allocator/settings.c` tells this one to give back what it does not need.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    kubelet::cli::main()
}
