//! Code that all benchmarks share: the command line, process statistics, percentiles and the result table.

pub mod gauge;
pub mod numbers;
pub mod table;
pub mod words;
