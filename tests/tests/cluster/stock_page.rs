//! The commands of `docs/stock-components.md`, and the programs with which other tests run them.

use std::path::PathBuf;

use master::controllers::{COMPLEMENTARY_LEASE, CONTROLLER_MANAGER, complementary_names};

const PAGE: &str = include_str!("../../../docs/stock-components.md");

/// The arguments of the page's command with that beginning; a line that ends with `\` continues on the next.
pub fn command(beginning: &str) -> Vec<String> {
    let joined = PAGE.replace("\\\n", " ");
    let line = joined.lines().map(str::trim).find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("{beginning} is not in the page"));
    line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// Path of a stock program. The tests that need one run only when they are selected (`.config/nextest.toml`).
pub fn stock_program(name: &str) -> PathBuf {
    let folder = std::env::var_os("CORACLE_PEERS");
    let folder =
        folder.expect("CORACLE_PEERS names a folder with the programs (docs/contributing/README.md)");
    let program = PathBuf::from(folder).join(name);
    assert!(program.exists(), "{} is missing", program.display());
    program
}

#[test]
fn documented_controller_names_equal_those_of_the_master() {
    let run = command("master run --scheduler=true --controllers");
    let mut listed: Vec<&str> = run.last().unwrap().split(',').collect();
    let mut known = complementary_names();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
    for lease in [CONTROLLER_MANAGER, COMPLEMENTARY_LEASE] {
        assert!(PAGE.contains(&format!("`kube-system/{lease}`")), "{lease}");
    }
}
