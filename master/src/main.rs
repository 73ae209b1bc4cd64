//! The `master` command.

use tikv_jemallocator::Jemalloc;

/// Every write takes trees of small pieces apart, on several threads, which costs the allocator of the C library a third of
/// the processor. `.cargo/config.toml` tells this one to give back what it does not need.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> std::process::ExitCode {
    master::cli::main()
}
