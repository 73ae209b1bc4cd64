//! The `master` command.

use tikv_jemallocator::Jemalloc;

/// The allocator. Each write frees trees of small allocations on several threads. With the C library's allocator,
/// that takes a third of the CPU time. `.cargo/config.toml` makes jemalloc return unused memory.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    master::cli::main()
}
