//! How answers look on a terminal.

pub mod table;
pub mod yaml;
