//! Checks imports between crates and between modules by the tables of ARCHITECTURE.md.

use std::collections::BTreeMap;
use std::fs;

use crate::architecture::{Crate, Module, PAGE, crates, modules};
use crate::arrows::{arrows, module, reexports};
use crate::{assert_tidy, broken, sources, top};

/// The crate of the container engine's API, and the only module that uses it.
const ENGINE: (&str, &str) = ("bollard", "kubelet/src/runtime/");

fn page() -> String {
    fs::read_to_string(top().join(PAGE)).unwrap()
}

#[test]
fn crates_depend_on_what_their_row_permits() {
    let crates = crates(&page());
    let manifest = fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let mut faults = Vec::new();
    for name in members.split('"').skip(1).step_by(2) {
        let Some(row) = crates.iter().find(|row| row.name == name) else {
            faults.push(broken(PAGE, 1, &format!("the crate `{name}` has no row")));
            continue;
        };
        let path = format!("{name}/Cargo.toml");
        let text = fs::read_to_string(top().join(&path)).unwrap();
        faults.extend(check_manifest(&crates, row, &path, &text));
    }
    assert_tidy(&faults);
}

fn check_manifest(crates: &[Crate], row: &Crate, path: &str, manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    // Dev-dependencies do not count: they do not reach users of the crate.
    let mut counts = false;
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            counts = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or("");
        let is_other =
            crates.iter().any(|other| other.name == name) && !row.may.iter().any(|may| may == name);
        if counts && (is_other || row.never.iter().any(|never| never == name)) {
            faults.push(broken(
                path,
                number + 1,
                &format!("this crate must not depend on `{name}` ({PAGE}:{})", row.line),
            ));
        }
    }
    faults
}

#[test]
fn modules_import_what_their_row_permits() {
    let page = page();
    let mut faults = Vec::new();
    for Crate { name, .. } in crates(&page).into_iter().filter(|row| row.name != "tests") {
        let src = format!("{name}/src");
        let rules = modules(&page, &name);
        let mut seen = Vec::new();
        let sources = sources(&[src.as_str()]);
        let root = sources.iter().find(|source| source.path == format!("{src}/lib.rs"));
        let aliases = root.map(|root| reexports(&root.text)).unwrap_or_default();
        for source in &sources {
            let under_src = source.path.trim_start_matches(&src).trim_start_matches('/');
            let is_test =
                under_src == "tests.rs" || under_src.ends_with("/tests.rs") || under_src.contains("tests/");
            if let (Some(own), false) = (module(under_src).first(), is_test) {
                faults.extend(check_file(&rules, &aliases, own, &source.path, under_src, &source.text));
                seen.push((*own).to_owned());
            }
        }
        faults.extend(check_rows(&rules, &seen));
    }
    assert_tidy(&faults);
}

/// Rows without a module, duplicate rows, and permissions that point to a later row, which would permit a cycle.
fn check_rows(rules: &[Module], seen: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let before = &rules[..at];
        let is_before = |name: &str| before.iter().any(|other| other.name == name);
        if !seen.contains(&rule.name) {
            faults.push(broken(PAGE, rule.line, &format!("there is no module `{}`", rule.name)));
        }
        if is_before(&rule.name) {
            faults.push(broken(PAGE, rule.line, &format!("`{}` has two rows", rule.name)));
        }
        for may in rule.may.iter().flatten() {
            if !is_before(may.split("::").next().unwrap_or("")) {
                let why = format!("`{}` may import `{may}`, which is no module of an earlier row", rule.name);
                faults.push(broken(PAGE, rule.line, &why));
            }
        }
    }
    faults
}

fn check_file(
    rules: &[Module],
    aliases: &BTreeMap<String, String>,
    own: &str,
    path: &str,
    under_src: &str,
    text: &str,
) -> Vec<String> {
    let Some(at) = rules.iter().position(|rule| rule.name == own) else {
        return vec![broken(path, 1, &format!("the module `{own}` has no row in {PAGE}"))];
    };
    let rule = &rules[at];
    let mut faults = Vec::new();
    for arrow in arrows(under_src, text) {
        let first = arrow.to.split("::").next().unwrap_or("");
        let target = match aliases.get(first) {
            Some(module) if rules.iter().all(|rule| rule.name != first) => format!("{module}::{first}"),
            _ => arrow.to.clone(),
        };
        let to = target.split("::").next().unwrap_or("");
        let Some(there) = rules.iter().position(|rule| rule.name == to).filter(|there| *there != at) else {
            continue;
        };
        let is_allowed = match &rule.may {
            None => there < at,
            Some(may) => may.iter().any(|may| target == *may || target.starts_with(&format!("{may}::"))),
        };
        if !is_allowed {
            let why = format!("`{own}` must not import `{target}` ({PAGE}:{})", rule.line);
            faults.push(broken(path, arrow.line, &why));
        }
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        for word in rule.never.iter().filter(|word| code.contains(**word)) {
            faults.push(broken(
                path,
                number + 1,
                &format!("`{}` has no place in `{own}` ({PAGE}:{})", word.trim(), rule.line),
            ));
        }
        let (engine, runtime) = ENGINE;
        if code.contains(engine) && !path.starts_with(runtime) {
            faults.push(broken(path, number + 1, &format!("only {runtime} uses {engine}")));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, may: Option<&[&str]>, never: &[&'static str]) -> Module {
        let may = may.map(|may| may.iter().map(|path| (*path).to_owned()).collect());
        Module { name: name.to_owned(), may, never: never.to_vec(), line: 1 }
    }

    #[test]
    fn check_finds_a_forbidden_import() {
        let rules = [
            rule("observed", Some(&[]), &[]),
            rule("runtime", Some(&["observed"]), &[]),
            rule("plan", Some(&["observed", "runtime::spec"]), &["::now()"]),
            rule("wiring", None, &[]),
        ];
        let aliases = BTreeMap::from([("Runtime".to_owned(), "runtime".to_owned())]);
        let check = |own: &str, text: &str| {
            check_file(&rules, &aliases, own, "f.rs", &format!("{own}/f.rs"), text).len()
        };
        assert_eq!(check("plan", "use crate::observed::Pod;\nuse crate::runtime::spec::Id;"), 0);
        assert_eq!(check("plan", "use crate::runtime::Docker;\nlet now = Timestamp::now();"), 2);
        assert_eq!(check("plan", "use crate::{Runtime, wiring};"), 2);
        assert_eq!(check("wiring", "use crate::{plan, Runtime};"), 0);
        assert_eq!(check("observed", "use bollard::Docker;"), 1);
        assert_eq!(check("attic", ""), 1);
    }

    #[test]
    fn check_finds_a_row_that_permits_a_cycle() {
        let rules = [rule("a", Some(&["b::X"]), &[]), rule("b", Some(&["a"]), &[]), rule("b", None, &[])];
        let seen = ["a".to_owned()];
        let faults = check_rows(&rules, &seen);
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(faults[0].contains("earlier row") && faults[1].contains("no module `b`"), "{faults:?}");
    }

    #[test]
    fn check_finds_a_forbidden_dependency() {
        let row = |name: &str, may: &[&str], never: &[&str]| Crate {
            name: name.to_owned(),
            may: may.iter().map(|name| (*name).to_owned()).collect(),
            never: never.iter().map(|name| (*name).to_owned()).collect(),
            line: 1,
        };
        let crates = [row("api", &[], &["tokio"]), row("kubelet", &["api"], &[]), row("master", &[], &[])];
        let manifest = "[dependencies]\nserde.workspace = true\ntokio = \"1\"\nmaster.workspace = true\n[dev-dependencies]\nkubelet.workspace = true\n";
        assert_eq!(check_manifest(&crates, &crates[0], "x", manifest).len(), 2);
        let manifest = "[dependencies]\napi.workspace = true\n";
        assert_eq!(check_manifest(&crates, &crates[1], "x", manifest), [""; 0]);
    }
}
