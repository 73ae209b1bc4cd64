//! The `kubelet` command.

use tikv_jemallocator::Jemalloc;

/// jemalloc returns unused memory. Memory of short-lived bursts is fragmented, so that the C library's allocator keeps a third
/// more, and some per thread. `allocator/settings.c` configures it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    kubelet::cli::main()
}
