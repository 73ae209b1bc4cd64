//! What `/proc/PID/status` says of capabilities.

use super::*;

#[test]
fn missing_bits_have_names() {
    let status = |bounds: &str| format!("Name:\tdockerd\nCapEff:\t0\nCapBnd:\t{bounds}\nCapAmb:\t0\n");
    assert_eq!(of_status(&status("000001ffffffffff")), Some(vec![]));
    assert_eq!(of_status(&status("000001fffeffffff")), Some(vec!["SYS_RESOURCE"]));
    assert_eq!(of_status(&status("000000ffffffffff")), Some(vec!["CHECKPOINT_RESTORE"]));
    assert_eq!(of_status("Name:\tdockerd\n"), None);
}
