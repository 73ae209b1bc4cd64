//! Tests of formatting and parsing paths.

use super::{Path, PathBuf};

#[test]
fn a_path_says_where() {
    let spec = Path::ROOT.field("spec");
    let containers = spec.field("containers");
    let container = containers.index(2);
    let resources = container.field("resources");
    let limits = resources.field("limits");
    assert_eq!(
        limits.key("example.com/gpu").to_owned().to_string(),
        "spec.containers[2].resources.limits[example.com/gpu]"
    );
    assert_eq!(Path::ROOT.to_owned().to_string(), "");
}

#[test]
fn text_round_trips() {
    for text in [
        "",
        "spec",
        "spec.containers[0].image",
        "items[1].items[0]",
        "metadata.labels[app.kubernetes.io/name]",
        "data[a b]",
    ] {
        assert_eq!(PathBuf::from(text).to_string(), text);
    }
    // Parsing terminates for any text.
    for text in ["..", "[", "a[", "a[b", "]", ".[0]", "é.é"] {
        assert!(PathBuf::from(text).steps().len() < 4, "{text}");
    }
}
