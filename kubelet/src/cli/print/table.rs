//! Columns under heads, three spaces apart, as kubectl aligns them.

/// Columns that grow with what they hold and never shrink, so that later lines stand under earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Columns that are this wide from the beginning, for lines that come one by one.
    pub fn at_least(widths: Vec<usize>) -> Self {
        Self { widths }
    }

    /// Lines of the rows.
    pub fn lines(&mut self, rows: &[Vec<String>]) -> String {
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (cell, width) in row.iter().zip(&mut self.widths) {
                *width = cell.chars().count().max(*width);
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&self.widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 3 - cell.chars().count()));
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}
