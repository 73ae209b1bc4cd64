//! Finds the modules of its own crate that a source file names, in `use` lines and in paths.

use std::collections::BTreeMap;

/// A path from the crate root, and its line number (from 1).
#[derive(Debug, PartialEq, Eq)]
pub struct Arrow {
    pub line: usize,
    /// `runtime::spec::Identity`: without `crate`.
    pub to: String,
}

/// The module path of a file under `src`: `plan/tests.rs` is `["plan", "tests"]`, `plan/mod.rs` is `["plan"]`.
pub fn module(path_under_src: &str) -> Vec<&str> {
    let stem = path_under_src.trim_end_matches(".rs");
    stem.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).collect()
}

/// All paths from the crate root that the text names, with `super` resolved and groups in braces expanded.
pub fn arrows(path_under_src: &str, text: &str) -> Vec<Arrow> {
    let depth = module(path_under_src).len();
    let code = without_comments(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let starts_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
        let tree = if !starts_word {
            None
        } else if let Some(tree) = rest.strip_prefix("crate::") {
            Some(tree)
        } else {
            let inner = rest.trim_start_matches("super::");
            let ups = (rest.len() - inner.len()) / "super::".len();
            (ups > 0 && ups == depth).then_some(inner)
        };
        if let Some(tree) = tree {
            let line = code[..at].matches('\n').count() + 1;
            let mut paths = Vec::new();
            expand("", tree, &mut paths);
            found.extend(paths.into_iter().map(|to| Arrow { line, to }));
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    found
}

/// The names that a crate root re-exports (`pub use module::Name;`), with the module of each.
pub fn reexports(text: &str) -> BTreeMap<String, String> {
    let code = without_comments(text);
    let mut found = BTreeMap::new();
    for tree in code.split("pub use ").skip(1) {
        let mut paths = Vec::new();
        expand("", tree.trim_start_matches("self::").trim_start_matches("crate::"), &mut paths);
        let ends =
            paths.iter().filter_map(|path| Some((path.rsplit_once("::")?.1, path.split("::").next()?)));
        found.extend(ends.map(|(name, module)| (name.to_owned(), module.to_owned())));
    }
    found
}

/// The text with `//` comments blanked; line numbers do not change.
fn without_comments(text: &str) -> String {
    let keep = |line: &str| match line.find("//") {
        // `https://` in a string is not a comment.
        Some(at) if !line[..at].ends_with(':') => line[..at].to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

/// Expands `a::{b, c::d}` to `a::b` and `a::c::d`; returns the number of bytes read.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) -> usize {
    let skipped = tree.len() - tree.trim_start().len();
    let body = &tree[skipped..];
    if let Some(group) = body.strip_prefix('{') {
        let mut at = 0;
        loop {
            at += expand(prefix, &group[at..], paths);
            let left = group[at..].trim_start();
            at = group.len() - left.len();
            match left.chars().next() {
                Some(',') => at += 1,
                Some('}') => return skipped + at + 2,
                _ => return skipped + at + 1,
            }
        }
    }
    let name = body.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
    let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
    match body[name.len()..].strip_prefix("::") {
        Some(rest) if !name.is_empty() => skipped + name.len() + 2 + expand(&path, rest, paths),
        _ => {
            if !name.is_empty() {
                paths.push(path);
            }
            let alias = body[name.len()..].split([',', '}', ';', '\n']).next().map_or(0, str::len);
            skipped + name.len() + if body[name.len()..].starts_with(" as ") { alias } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{arrows, module, reexports};

    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<String> =
            arrows(path, text).into_iter().map(|arrow| format!("{} {}", arrow.line, arrow.to)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_is_a_module() {
        assert_eq!(module("plan/mod.rs"), ["plan"]);
        assert_eq!(module("plan/backoff/tests.rs"), ["plan", "backoff", "tests"]);
        assert_eq!(module("lib.rs"), [""; 0]);
    }

    #[test]
    fn paths_groups_and_aliases_are_parsed() {
        check("plan/mod.rs", "use crate::observed::Pod;", &["1 observed::Pod"]);
        check(
            "a.rs",
            "\nuse crate::{desired, runtime::{self as door, spec::Id}};",
            &["2 desired", "2 runtime::self", "2 runtime::spec::Id"],
        );
        check("a.rs", "use crate::{\n  plan as p,\n  worker,\n};", &["1 plan", "1 worker"]);
        check("a.rs", "let x = crate::worker::run();", &["1 worker::run"]);
    }

    #[test]
    fn super_paths_count_only_if_they_reach_the_crate_root() {
        check("plan/mod.rs", "use super::worker::X;", &["1 worker::X"]);
        check("plan/tests.rs", "use super::*;\nuse super::super::worker;", &["2 worker"]);
        check("plan/deep/x.rs", "use super::super::phase;", &[]);
    }

    #[test]
    fn names_at_the_root_belong_to_modules() {
        let found = reexports("mod a;\npub use a::X;\npub use self::b::{Y, deep::Z};\nuse c::W;");
        let found: Vec<String> = found.into_iter().map(|(name, module)| format!("{name} {module}")).collect();
        assert_eq!(found, ["X a", "Y b", "Z b"]);
    }

    #[test]
    fn comments_and_similar_text_are_ignored() {
        check("a.rs", "// use crate::worker;\n/// See [`crate::plan`].\nmy_crate::x(); $crate::y();", &[]);
    }
}
