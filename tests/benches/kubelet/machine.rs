//! Describes the machine in one line.

use std::fs;

use tests::Engine;

/// Returns the processors, memory, kernel, Docker version and load of this machine, on one line.
pub async fn line() -> String {
    let engine = Engine::connect().await;
    let version = engine.docker().version().await.unwrap().version.unwrap_or_default();
    let info = engine.docker().info().await.unwrap();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{} processors, {} GiB, Linux {}, Docker {version} ({}), load {}",
        info.ncpu.unwrap_or_default(),
        info.mem_total.unwrap_or_default() >> 30,
        info.kernel_version.unwrap_or_default(),
        info.driver.unwrap_or_default(),
        load.split(' ').next().unwrap_or_default()
    )
}
