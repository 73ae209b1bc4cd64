//! Checks each file: a module comment, a size limit, tests that are not ignored and do not sleep.

use crate::{Source, all_sources, assert_tidy, broken};

/// Maximum number of lines; a longer file usually covers two topics.
const MOST_LINES: usize = 600;

/// Exceptions: files that may be longer, their limit, and the reason.
const LONGER: &[(&str, usize)] = &[];

/// The only file with sleeps; tests wait for a condition with a deadline.
const WAITS: &str = "tests/src/wait.rs";

#[test]
fn source_files_follow_the_project_layout() {
    let faults: Vec<String> = all_sources().iter().flat_map(check).collect();
    assert_tidy(&faults);
}

fn check(source: &Source) -> Vec<String> {
    let Source { path, text } = source;
    let mut faults = Vec::new();
    if !text.starts_with("//! ") {
        faults.push(broken(path, 1, "the first line says in one sentence what the file is: `//! ...`"));
    }
    let lines = text.lines().count();
    let most = LONGER.iter().find(|(longer, _)| longer == path).map_or(MOST_LINES, |(_, most)| *most);
    if lines > most {
        faults.push(broken(
            path,
            most,
            &format!("{lines} lines, more than {most}: a file is one idea, split it"),
        ));
    }
    // Benchmarks may sleep, because they measure over a period.
    let is_bench = path.starts_with("tests/benches/");
    let is_test = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    for (number, line) in text.lines().enumerate().filter(|_| !path.starts_with("tests/tests/tidy/")) {
        if line.trim_start().starts_with("#[ignore") {
            faults.push(broken(path, number + 1, "a test that is ignored is no test: mend it or delete it"));
        }
        let code = line.split("//").next().unwrap_or("");
        let sleeps = code.contains("thread::sleep") || code.contains("time::sleep(");
        if is_test && !is_bench && sleeps && path != WAITS {
            faults.push(broken(
                path,
                number + 1,
                "a test waits for a condition with a deadline, it does not sleep",
            ));
        }
    }
    faults
}

#[test]
fn check_finds_files_that_violate_the_layout() {
    let found =
        |path: &str, text: &str| check(&Source { path: path.to_owned(), text: text.to_owned() }).len();
    assert_eq!(found("api/src/x.rs", "//! Fine.\n"), 0);
    assert_eq!(found("api/src/x.rs", "use std::fs;\n"), 1);
    assert_eq!(found("api/src/x.rs", &format!("//! Long.\n{}", "\n".repeat(MOST_LINES))), 1);
    assert_eq!(found("api/src/x/tests.rs", "//! T.\n    #[ignore]\n"), 1);
    assert_eq!(found("tests/tests/x.rs", "//! T.\ntokio::time::sleep(d).await;\n"), 1);
    assert_eq!(found("kubelet/src/pod_workers/mod.rs", "//! W.\ntokio::time::sleep(d).await;\n"), 0);
    assert_eq!(found(WAITS, "//! Waits.\ntokio::time::sleep(d).await;\n"), 0);
}
