//! Checks that the files named in ARCHITECTURE.md, docs/support.md and docs/contributing/ exist.

use std::fs;
use std::path::Path;

use crate::architecture::{PAGE, quoted};
use crate::{assert_tidy, broken, top, versions};

const PAGES: &str = "docs/contributing";
/// Longest length of ARCHITECTURE.md, so that it stays a map.
const MOST_LINES: usize = 200;

#[test]
fn named_files_exist() {
    let top = top();
    let mut pages = vec![PAGE.to_owned(), versions::PAGE.to_owned()];
    for entry in fs::read_dir(top.join(PAGES)).unwrap() {
        pages.push(format!("{PAGES}/{}", entry.unwrap().file_name().into_string().unwrap()));
    }
    assert!(pages.len() > 4, "{pages:?}");
    let roots: Vec<String> = fs::read_dir(&top)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| top.join(name).is_dir() && !name.starts_with('.') && name != "target")
        .collect();
    let sources: Vec<String> = crate::all_sources().into_iter().map(|source| source.path).collect();
    let mut faults = Vec::new();
    for page in pages {
        let text = fs::read_to_string(top.join(&page)).unwrap();
        faults.extend(check(&page, &text, &roots, &sources, &|path| top.join(path).exists()));
    }
    assert_tidy(&faults);
    let lines = fs::read_to_string(top.join(PAGE)).unwrap().lines().count();
    assert!(lines <= MOST_LINES, "{PAGE} has {lines} lines, more than {MOST_LINES}");
}

/// Checks quoted paths below a folder of the workspace, quoted names of `.rs` files, and relative links.
fn check(
    page: &str,
    text: &str,
    roots: &[String],
    sources: &[String],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let folder = Path::new(page).parent().and_then(Path::to_str).unwrap_or_default();
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut missing =
            |name: &str| faults.push(broken(page, number + 1, &format!("there is no `{name}`")));
        for name in quoted(line) {
            let is_path = !name.contains([' ', '<', '*', '{', ':']) && name.contains('/');
            let is_rooted = is_path && roots.iter().any(|root| name.split('/').next() == Some(root));
            let is_source = name.ends_with(".rs") && !name.contains(['<', '*', ' ']);
            let is_known = |name: &str| sources.iter().any(|path| path.ends_with(&format!("/{name}")));
            if is_rooted && !exists(name) && !(is_source && is_known(name))
                || !is_rooted && is_source && !is_known(name)
            {
                missing(name);
            }
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let target = if folder.is_empty() { link.to_owned() } else { format!("{folder}/{link}") };
            if !link.is_empty() && !link.contains("://") && !exists(&target) {
                missing(link);
            }
        }
    }
    faults
}

#[test]
fn check_finds_paths_that_do_not_exist() {
    let roots = ["api".to_owned(), "docs".to_owned()];
    let sources = ["api/src/plan/mod.rs".to_owned()];
    let exists = |path: &str| {
        ["api/src/plan", "docs/a.md", "docs/contributing/b.md"].contains(&path.trim_end_matches('/'))
    };
    let check = |text: &str| check("docs/contributing/x.md", text, &roots, &sources, &exists).len();
    assert_eq!(
        check("`plan/mod.rs`, `api/src/plan/`, `docs/a.md`, `apps/v1`, `plan::X`, [b](b.md), [u](https://x)"),
        0
    );
    assert_eq!(check("`plan/gone.rs`, `api/src/gone`, [c](c.md)"), 3);
    assert_eq!(check("[a](../a.md)"), 1, "the paths of this test are not normalized");
}
