//! What a real engine says during a pull.

use super::*;

fn step(layer: &str, status: &str, mib: Option<(u64, u64)>) -> PullStep {
    PullStep {
        layer: layer.to_owned(),
        status: status.to_owned(),
        done_bytes: mib.map(|(done, _)| done << 20),
        total_bytes: mib.map(|(_, total)| total << 20),
    }
}

#[test]
fn layers_add_up() {
    let mut progress = Progress::default();
    for (layer, status, mib, expected) in [
        ("latest", "Pulling from library/busybox", None, "0 of 0 MiB, 0 of 0 layers"),
        ("a", "Pulling fs layer", None, "0 of 0 MiB, 0 of 1 layers"),
        ("b", "Already exists", None, "0 of 0 MiB, 1 of 2 layers"),
        ("a", "Downloading", Some((5, 20)), "5 of 20 MiB, 1 of 2 layers"),
        ("a", "Verifying Checksum", None, "20 of 20 MiB, 1 of 2 layers"),
        ("a", "Extracting", Some((1, 20)), "20 of 20 MiB, 1 of 2 layers"),
        ("a", "Pull complete", None, "20 of 20 MiB, 2 of 2 layers"),
        ("", "Status: Downloaded newer image", None, "20 of 20 MiB, 2 of 2 layers"),
    ] {
        progress.add(step(layer, status, mib));
        assert_eq!(progress.to_string(), expected, "{layer} {status}");
        assert_eq!(progress.is_beginning(), layer == "latest");
    }
}
