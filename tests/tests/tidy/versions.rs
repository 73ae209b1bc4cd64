//! Checks that docs/support.md has the versions of the code, and that no other file repeats the Kubernetes version.

use std::fs;

use apiserver::VERSION;

use crate::{all_sources, assert_tidy, broken, top};

/// The page with the support policy.
pub const PAGE: &str = "docs/support.md";
/// Where the version is defined.
const DEFINITION: &str = "api/src/kubernetes_version.rs";

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_support_page_has_the_versions_of_the_code() {
    let served = format!("{}.{}", VERSION.major, VERSION.minor);
    let (release, _) = VERSION.git_version.split_once("+coracle-").unwrap();
    let (manifest, packages) = (read("Cargo.toml"), read("tests/requirements.txt"));
    let kube = manifest.lines().find_map(|line| line.strip_prefix("kube = { version = \"")).unwrap();
    let package = |name: &str| packages.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let rows = [
        format!("| Kubernetes API | **{served}** |"),
        format!("`{release}+coracle-`"),
        format!("are those of {served}."),
        format!("| kube-rs (crate `kube`) | {} |", kube.split('"').next().unwrap()),
        format!("| Python client (package `kubernetes`) | {} |", package("kubernetes==")),
        format!("| Schemathesis, on the OpenAPI documents | {} |", package("schemathesis==")),
    ];
    assert_tidy(&missing(PAGE, &read(PAGE), &rows));
    assert_tidy(&missing("docs/lone-node.md", &read("docs/lone-node.md"), &[format!("(1.20 to {served})")]));
}

fn missing(path: &str, page: &str, texts: &[String]) -> Vec<String> {
    let missing = texts.iter().filter(|text| !page.contains(text.as_str()));
    missing.map(|text| broken(path, 1, &format!("does not contain `{text}`, which the code says"))).collect()
}

#[test]
fn the_kubernetes_version_is_defined_once() {
    let sources = all_sources();
    let is_test =
        |path: &str| path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    let faults: Vec<String> = sources
        .iter()
        .filter(|source| source.path != DEFINITION && !is_test(&source.path))
        .flat_map(|source| repeated(&source.path, &source.text))
        .collect();
    assert_tidy(&faults);
}

/// Lines before the unit tests of a file that have the version in a string.
fn repeated(path: &str, text: &str) -> Vec<String> {
    let version = format!("{}.{}", VERSION.major, VERSION.minor);
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    let has_version = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        let mut strings = code.split('"').skip(1).step_by(2);
        strings.any(|string| string.contains(&version) || string == VERSION.minor)
    };
    let lines = code.filter(|(_, line)| has_version(line));
    lines.map(|(number, _)| broken(path, number + 1, &format!("use the constants of {DEFINITION}"))).collect()
}

#[test]
fn check_finds_a_repeated_version_and_a_stale_page() {
    let found = |text: String| repeated("kubelet/src/x.rs", &text).len();
    assert_eq!(found(format!("const A: &str = \"v{}.{}.0\";", VERSION.major, VERSION.minor)), 1);
    assert_eq!(found(format!("let minor = \"{}\";", VERSION.minor)), 1);
    assert_eq!(found(format!("// As in \"{}.{}\".", VERSION.major, VERSION.minor)), 0);
    assert_eq!(found(format!("#[cfg(test)]\nlet minor = \"{}\";", VERSION.minor)), 0);
    let texts = ["served: 1.2".to_owned()];
    assert_eq!(
        (missing(PAGE, "served: 1.2", &texts).len(), missing(PAGE, "served: 1.1", &texts).len()),
        (0, 1)
    );
}
