//! The `master` command.

use tikv_jemallocator::Jemalloc;

/// Each write frees trees of small allocations on several threads, which takes a third of the CPU time with the C
/// library's allocator. `.cargo/config.toml` makes jemalloc return unused memory.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    master::cli::main()
}
