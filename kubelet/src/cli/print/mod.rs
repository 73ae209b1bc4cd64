//! How answers look on a terminal.

mod out;
pub mod table;
pub mod yaml;

pub use out::{READER_GONE, ReaderGone, err, out, say};
