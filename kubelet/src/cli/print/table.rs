//! Text tables with columns three spaces apart, in the layout of kubectl.

/// Column widths. They only grow, so that later lines stay aligned with earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Creates columns with minimum widths, for output that is printed line by line.
    pub fn at_least(widths: Vec<usize>) -> Self {
        Self { widths }
    }

    /// Formats rows as lines.
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
