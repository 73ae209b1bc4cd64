//! Checks the length of socket paths.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Limit for a socket path in bytes: `sun_path` has 108 (unix(7)), including the terminating NUL.
const MAX_PATH_BYTES: usize = 107;

/// Checks that the kernel accepts a socket path in the directory of `flag`.
///
/// # Errors
/// If the path is too long. The error says the actual length, the limit and the remedy.
pub fn check_socket_path(path: &Path, flag: &str) -> Result<(), String> {
    let length = path.as_os_str().as_bytes().len();
    let Some(over) = length.checked_sub(MAX_PATH_BYTES).filter(|over| *over > 0) else { return Ok(()) };
    Err(format!(
        "the socket path {} has {length} bytes, but the kernel accepts at most {MAX_PATH_BYTES}: use a {flag} that is \
         shorter by {over} bytes",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    //! Tests paths of the maximum length.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::check_socket_path;

    #[test]
    fn socket_path_limit_is_checked() {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert_eq!(check_socket_path(path(107).as_ref(), "--data-dir"), Ok(()));
        let error = check_socket_path(path(110).as_ref(), "--data-dir").unwrap_err();
        assert!(error.contains(&format!("{} has 110 bytes", path(110))), "{error}");
        assert!(
            error.contains("at most 107") && error.ends_with("a --data-dir that is shorter by 3 bytes"),
            "{error}"
        );
    }
}
