//! What every bench needs: words of its command line, gauges, a little statistics, the table at the end.

pub mod gauge;
pub mod numbers;
pub mod table;
pub mod words;
