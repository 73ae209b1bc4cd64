//! The result table: each line has a target, the measured value, and whether the value meets the target.

use std::fmt;

/// Results so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    /// Adds a value with an upper limit. If the limit is infinity, the table only reports the value.
    pub fn at_most(&mut self, what: &str, target: f64, measured: f64, unit: &str, detail: String) {
        let text = format!("<= {target:.2}{unit}");
        self.add(what, (target, text), measured <= target, measured, unit, detail);
    }

    /// Adds a value with a lower limit.
    pub fn at_least(&mut self, what: &str, target: f64, measured: f64, unit: &str, detail: String) {
        let text = format!(">= {target:.2}{unit}");
        self.add(what, (target, text), measured >= target, measured, unit, detail);
    }

    fn add(
        &mut self,
        what: &str,
        target: (f64, String),
        met: bool,
        measured: f64,
        unit: &str,
        detail: String,
    ) {
        let (limit, target) = target;
        let verdict = match (limit.is_finite(), met) {
            (false, _) => "",
            (true, true) => "met",
            (true, false) => "MISSED",
        };
        let target = if limit.is_finite() { target } else { "-".to_owned() };
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
