//! The `kubelet` command.

use tikv_jemallocator::Jemalloc;

/// The allocator. jemalloc returns unused memory. The C library's allocator keeps a third more after short bursts,
/// and additional memory per thread. `allocator/settings.c` configures jemalloc.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    kubelet::cli::main()
}
