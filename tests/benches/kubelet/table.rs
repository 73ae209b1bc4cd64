//! The table at the end: target, what was measured, and whether that is good enough.

use std::fmt;
use std::fs;

use tests::Engine;

/// What was measured so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    /// A number that should not be above its target.
    pub fn at_most(&mut self, what: &str, target: f64, measured: f64, unit: &str, detail: String) {
        self.add(what, format!("<= {target:.2}{unit}"), measured <= target, measured, unit, detail);
    }

    /// A number that should not be below its target.
    pub fn at_least(&mut self, what: &str, target: f64, measured: f64, unit: &str, detail: String) {
        self.add(what, format!(">= {target:.2}{unit}"), measured >= target, measured, unit, detail);
    }

    fn add(&mut self, what: &str, target: String, met: bool, measured: f64, unit: &str, detail: String) {
        let verdict = if met { "met" } else { "MISSED" };
        let row = [what.to_owned(), target, format!("{measured:.2}{unit}"), verdict.to_owned(), detail];
        eprintln!("{}", row.join("  "));
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["what", "target", "measured", "verdict", "more"].map(str::to_owned);
        let rows: Vec<&[String; 5]> = [&head].into_iter().chain(&self.rows).collect();
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
                let width = if column + 1 == row.len() { 0 } else { width + 2 };
                write!(f, "{cell:width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// One line on where this ran.
pub async fn machine() -> String {
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
