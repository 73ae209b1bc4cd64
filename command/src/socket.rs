//! How long the path of a socket may be.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes of the longest path: the kernel's `sun_path` has 108 (unix(7)), the last of which ends it.
const LONGEST_BYTES: usize = 107;

/// Whether the kernel takes the path of a socket, which lies in the directory of that flag.
///
/// # Errors
/// How long it is and may be, and what to do.
pub fn socket_fits(path: &Path, flag: &str) -> Result<(), String> {
    let length = path.as_os_str().as_bytes().len();
    let Some(over) = length.checked_sub(LONGEST_BYTES).filter(|over| *over > 0) else { return Ok(()) };
    Err(format!(
        "the path of the socket {} has {length} bytes, and the kernel takes {LONGEST_BYTES} at most: give a {flag} that is \
         shorter by {over}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    //! Paths at the edge.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::socket_fits;

    #[test]
    fn the_last_byte_that_fits() {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert_eq!(socket_fits(path(107).as_ref(), "--data-dir"), Ok(()));
        let told = socket_fits(path(110).as_ref(), "--data-dir").unwrap_err();
        assert!(told.contains(&format!("{} has 110 bytes", path(110))), "{told}");
        assert!(
            told.contains("107 at most") && told.ends_with("a --data-dir that is shorter by 3"),
            "{told}"
        );
    }
}
