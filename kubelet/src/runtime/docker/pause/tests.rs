//! The image in the binary.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn the_image_is_the_same_every_time() {
    let (one, two) = (archive(b"program").unwrap(), archive(b"program").unwrap());
    assert_eq!((&one.name, &one.tar), (&two.name, &two.tar));
    assert_ne!(one.name, archive(b"another").unwrap().name);
}

#[test]
fn the_program_is_there_and_small() {
    assert!(PROGRAM.starts_with(b"\x7fELF"));
    assert!(PROGRAM.len() < 8 * 1024, "{} bytes", PROGRAM.len());
    assert!(ARCHIVE.tar.len() < 32 * 1024);
}
