//! Tests of files, plans and the inventory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod passes;
mod safety;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use client::Kind;
use command::Stamp;

use super::inventory::Applied;
use super::manifests::{MAX_OBJECTS, Manifest, parse};
use super::settle::CONFIRM;
use super::*;

fn described(manifests: &[Manifest]) -> Vec<String> {
    manifests.iter().map(ToString::to_string).collect()
}

fn config_map(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn file(name: &str, text: &str) -> File {
    let content = parse(text.as_bytes()).map(Into::into).map_err(Into::into);
    let digest = [u8::try_from(text.len() % 256).unwrap(); 32];
    File { name: name.to_owned(), stamp: Stamp::default(), is_recent: false, digest, content }
}

/// The kinds of a server.
fn served() -> Vec<Served> {
    [Kind::CONFIG_MAP, Kind::NAMESPACE, Kind::SECRET]
        .into_iter()
        .map(|kind| Served { kind, verbs: BTreeSet::new() })
        .collect()
}

/// The inventory after all files were applied.
fn inventory_of(files: &[File]) -> Inventory {
    let plan = Plan::new(files, &served());
    let applied = |file: &str| Applied { uid: "u".to_owned(), file: file.to_owned(), is_adopted: false };
    let objects = plan.wanted.iter().map(|wanted| (wanted.key.clone(), applied(wanted.file)));
    Inventory { objects: objects.collect(), ..Inventory::empty(Path::new("/a")) }
}

fn absent(files: &[File], inventory: &Inventory) -> Vec<String> {
    let absent = Plan::new(files, &served()).absent(inventory);
    absent.iter().map(ToString::to_string).collect()
}

#[test]
fn documents_lists_and_json_of_a_file_are_manifests() {
    let text = "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\n--- # next\n\
                {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n\
                {\"apiVersion\": \"v1\", \"kind\": \"SecretList\", \"items\": [{\"metadata\": {\"name\": \"b\"}}]}]}\n---\n";
    assert_eq!(
        described(&parse(text.as_bytes()).unwrap()),
        ["document 1, ConfigMap x/a", "document 2, Secret b"]
    );
    let json = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}
        {"apiVersion": "v1", "kind": "AList", "metadata": {"name": "b"}, "items": []}"#;
    assert_eq!(described(&parse(json.as_bytes()).unwrap()), ["document 1, A a", "document 1, AList b"]);
    assert!(
        parse(b"{apiVersion: v1, kind: List, items: []}").unwrap().is_empty(),
        "a list of nothing says so"
    );
    for (text, expected) in [
        ("a: 1\n---\napiVersion: v1\nkind: X\n", "document 1 (line 1): apiVersion is missing"),
        (
            "---\nkind: List\nitems: []\n---\napiVersion: v1\nkind: X\n",
            "document 2 (line 4): metadata.name is missing",
        ),
        ("---\n- 1\n", "document 1 (line 1): this is not an object"),
    ] {
        assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text}");
    }
    for empty in ["", "# only a comment\n", "---\n---\n"] {
        assert!(parse(empty.as_bytes()).unwrap_err().contains("empty"), "{empty:?}");
    }
}

#[test]
fn errors_of_documents_with_secrets_quote_no_values() {
    let broken = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hunter2}}\n";
    let error = parse(broken.as_bytes()).unwrap_err();
    assert!(error.starts_with("document 1 (line 1): ") && !error.contains("hunter2"), "{error}");
    let escaped = "\"kind\": \"\\u0053ecret\"\nstringData: {password: hunter2}}\n";
    let error = parse(escaped.as_bytes()).unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
    let duplicate = "kind: Secret\nstringData:\n  hunter2: a\n  hunter2: b\n";
    let error = parse(duplicate.as_bytes()).unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn documents_and_objects_of_a_file_are_limited() {
    let item = r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}"#;
    let list = |count| format!(r#"{{"kind":"List","items":[{}]}}"#, vec![item; count].join(","));
    assert_eq!(parse(list(MAX_OBJECTS).as_bytes()).unwrap().len(), MAX_OBJECTS);
    assert!(parse(list(MAX_OBJECTS + 1).as_bytes()).unwrap_err().contains("more than 5000 objects"));
    assert!(parse("---\n".repeat(10_001).as_bytes()).unwrap_err().contains("10000 documents"));
}

#[test]
fn a_namespace_that_the_scope_implies_is_the_same_object() {
    let before = [file("a.yaml", &config_map("a"))];
    let inventory = inventory_of(&before);
    let explicit = config_map("a").replace("name: a", "name: a, namespace: default");
    assert_eq!(absent(&[file("a.yaml", &explicit)], &inventory), [""; 0]);
    assert_eq!(inventory_of(&[file("a.yaml", &explicit)]), inventory);
    let twice = [file("a.yaml", &(config_map("a") + &explicit))];
    let problems = Plan::new(&twice, &served()).problems;
    assert_eq!(problems, ["a.yaml: document 2, ConfigMap default/a: a.yaml names it, too, and is applied"]);
    // A cluster-scoped object has none, whatever the manifest says.
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let inventory = inventory_of(&[file("a.yaml", namespace)]);
    let strange = namespace.replace("name: shop", "name: shop, namespace: other");
    assert_eq!(absent(&[file("a.yaml", &strange)], &inventory), [""; 0]);
}

#[test]
fn moved_objects_and_renamed_files_are_not_absent() {
    let before = [file("a.yaml", &config_map("a")), file("b.yaml", &(config_map("b") + &config_map("c")))];
    let inventory = inventory_of(&before);
    let renamed = [file("z.yaml", &(config_map("c") + &config_map("a"))), file("b.yaml", &config_map("b"))];
    assert_eq!(absent(&renamed, &inventory), [""; 0]);
    assert_eq!(absent(&renamed[1..], &inventory), ["ConfigMap default/a", "ConfigMap default/c"]);
}

#[test]
fn namespaces_and_definitions_are_applied_first_and_pruned_last() {
    let text = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let files = [file("a.yaml", &config_map("a")), file("b.yaml", &(config_map("a") + text))];
    let plan = Plan::new(&files, &served());
    let applied: Vec<&str> = plan.wanted.iter().map(|wanted| &*wanted.key.name).collect();
    assert_eq!(applied, ["shop", "a"]);
    assert_eq!(plan.problems, ["b.yaml: document 1, ConfigMap a: a.yaml names it, too, and is applied"]);
    assert_eq!(absent(&[], &inventory_of(&files)), ["ConfigMap default/a", "Namespace shop"]);
}

#[test]
fn an_object_waits_while_the_file_that_applied_it_may_still_name_it() {
    let inventory = inventory_of(&[file("a.yaml", &config_map("a"))]);
    let other = || file("b.yaml", &config_map("a"));
    let held = |files: &[File], uncertain: &[&str]| {
        let mut plan = Plan::new(files, &served());
        let uncertain = uncertain.iter().map(|&name| name.to_owned()).collect();
        plan.hold(files, &uncertain, &inventory);
        (plan.wanted[0].is_held, plan.problems.join("\n"))
    };
    assert_eq!(held(&[other()], &[]), (false, String::new()), "the file was renamed");
    assert_eq!(held(&[other()], &["a.yaml"]), (true, String::new()), "it left just now");
    assert_eq!(held(&[file("a.yaml", &config_map("b")), other()], &[]), (false, String::new()));
    let (is_held, problems) = held(&[file("a.yaml", "a: {"), other()], &[]);
    assert!(is_held && problems.contains("b.yaml: document 1, ConfigMap a: a.yaml applied it"), "{problems}");
}

#[test]
fn a_directory_with_less_than_a_third_of_its_files_is_another_one() {
    let four = ["a", "b", "c", "d"].map(|name| file(&format!("{name}.yaml"), &config_map(name)));
    let is_foreign = |files: &[File], former: &[File]| {
        let names = files.iter().map(|file| file.name.as_str()).collect();
        Plan::new(files, &served()).is_foreign(&names, &inventory_of(former))
    };
    let one = &four[..1];
    assert!(is_foreign(&[file("z.yaml", &config_map("z"))], one));
    assert!(is_foreign(&[file("z.yaml", "a: {")], one));
    assert!(!is_foreign(&[file("z.yaml", &config_map("a"))], one), "the file was renamed");
    assert!(!is_foreign(&[file("a.yaml", &config_map("z"))], one), "the file was edited");
    assert!(!is_foreign(one, &four[..3]));
    assert!(is_foreign(one, &four));
    assert!(!is_foreign(one, &[]));
}

#[test]
fn a_file_is_used_when_two_scans_find_the_same_version() {
    let (mut settling, start, second) = (Settling::default(), Instant::now(), Duration::from_secs(1));
    let scan = |texts: &[(&str, &str)]| Scan {
        files: texts.iter().map(|(name, text)| file(name, text)).collect(),
        ..Scan::default()
    };
    let (half, whole) = (config_map("a"), config_map("a") + &config_map("b"));
    let mut see = |texts: &[(&str, &str)], after: u32| {
        let seen = settling.see(&scan(texts), start + after * second);
        let objects = |file: &File| file.content.as_ref().map_or(0, |manifests| manifests.len());
        let objects: Vec<usize> = seen.files.iter().map(objects).collect();
        (objects, seen.confirmed_at - start, seen.uncertain.into_iter().collect::<Vec<_>>())
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(see(&[("a", &half)], 0), (vec![], CONFIRM, vec!["a".to_owned()]));
    assert_eq!(see(&[("a", &whole)], 1), (vec![], second + CONFIRM, vec!["a".to_owned()]), "it still grows");
    assert_eq!(see(&[("a", &whole)], 2), (vec![2], second + CONFIRM, none.clone()));
    assert_eq!(see(&[("a", "a: {")], 3), (vec![2], 3 * second + CONFIRM, none.clone()), "the former version");
    assert_eq!(see(&[("a", "a: {")], 4), (vec![0], 3 * second + CONFIRM, none.clone()));
    assert_eq!(see(&[("b", &half)], 5).2, ["a", "b"], "renamed");
    assert_eq!(see(&[("b", &half)], 6), (vec![1], 5 * second + CONFIRM, vec!["a".to_owned()]));
    assert_eq!(see(&[("b", &half)], 10), (vec![1], 5 * second + CONFIRM, none));
    settling.interrupt();
    let seen = settling.see(&scan(&[("b", &half)]), start + 20 * second);
    assert_eq!((seen.files.len(), seen.confirmed_at), (1, start + 20 * second + CONFIRM), "it starts again");
}

#[test]
fn a_scan_names_ignored_entries_and_unusable_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["b.json", "a.yaml", "c.yml", ".hidden.yaml", "note.txt", "a.yaml~", "a.yaml.swp", "..data"] {
        fs::write(path(name), config_map("a")).unwrap();
    }
    fs::write(path("empty.yaml"), "").unwrap();
    fs::write(path("open.yaml"), config_map("a")).unwrap();
    fs::set_permissions(path("open.yaml"), Permissions::from_mode(0o646)).unwrap();
    symlink("nowhere", path("link.yaml")).unwrap();
    fs::create_dir(path("more.yaml")).unwrap();
    fs::write(folder.path().join(OsStr::from_bytes(b"\xff.yaml")), config_map("a")).unwrap();
    let large = fs::File::create(path("large.yaml")).unwrap();
    large.set_len(files::MAX_FILE_BYTES + 1).unwrap();
    let scan = files::scan(folder.path(), &[]).unwrap();
    let skipped: Vec<&str> = scan.skipped.iter().map(|why| why.split(':').next().unwrap()).collect();
    assert_eq!(skipped, [".hidden.yaml", "note.txt"]);
    let is_good = |file: &&File| file.content.is_ok();
    let good: Vec<&str> = scan.files.iter().filter(is_good).map(|file| &*file.name).collect();
    assert_eq!(good, ["a.yaml", "b.json", "c.yml"]);
    for (name, why) in [
        ("empty.yaml", "the file is empty"),
        ("large.yaml", "exceeds 8 MiB"),
        ("link.yaml", "No such file"),
        ("more.yaml", "not a regular file"),
        ("open.yaml", "every user may write here (mode 646)"),
        ("\u{fffd}.yaml", "not UTF-8"),
    ] {
        let found = scan.files.iter().find(|file| file.name == name).unwrap();
        let error = found.content.as_ref().unwrap_err();
        assert!(error.contains(why), "{name}: {error}");
    }
    assert!(!scan.is_complete());
    assert!(["a.yaml", "..data"].into_iter().all(files::concerns));
    assert!(!["a.yaml.swp", ".a.yaml", "note.txt"].into_iter().any(files::concerns));
    // A file with known content is not parsed again.
    let again = files::scan(folder.path(), &scan.files).unwrap();
    let content = |scan: &Scan| scan.files[0].content.clone().unwrap();
    assert!(Arc::ptr_eq(&content(&scan), &content(&again)));
    for mode in [0o777, 0o1777] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        assert!(files::scan(folder.path(), &[]).unwrap_err().contains("chmod o-w"));
    }
}

#[test]
fn the_inventory_is_private_and_belongs_to_one_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = inventory::path(folder.path());
    let load = |directory: &str| inventory::load(&path, Path::new(directory)).unwrap();
    assert_eq!((load("/a").inventory.objects.len(), load("/a").notice), (0, None));
    let written = inventory_of(&[file("a.yaml", &config_map("a"))]);
    inventory::save(&path, &written).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let read = load("/a");
    assert_eq!((read.inventory, read.notice), (written, None));
    let other = load("/b");
    assert!(other.inventory.objects.is_empty() && other.notice.unwrap().contains("/a"));
    for bad in ["{", r#"{"version": 2, "directory": "/a", "record": null, "objects": []}"#] {
        fs::write(&path, bad).unwrap();
        let damaged = load("/a");
        assert!(damaged.inventory.objects.is_empty() && damaged.notice.unwrap().contains("damaged"));
        assert_eq!(fs::read_to_string(folder.path().join("addons.json.damaged")).unwrap(), bad);
        assert!(!path.exists());
    }
    inventory::set_aside(folder.path());
    inventory::save(&path, &Inventory::default()).unwrap();
    inventory::set_aside(folder.path());
    assert!(!path.exists() && folder.path().join("addons.json.unused").exists());
    fs::create_dir(&path).unwrap();
    assert!(inventory::load(&path, Path::new("/a")).is_err(), "it is unknown what was applied");
}
