//! Tests of files, plans and the inventory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod passes;
mod safety;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use client::Kind;

use super::inventory::Applied;
use super::manifests::{MAX_OBJECTS, Manifest, parse};
use super::*;

fn described(manifests: &[Manifest]) -> Vec<String> {
    manifests.iter().map(ToString::to_string).collect()
}

fn config_map(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
}

fn file(name: &str, text: &str) -> File {
    let content = parse(text.as_bytes()).map(Into::into).map_err(Into::into);
    File { name: name.to_owned(), digest: [u8::try_from(text.len() % 256).unwrap(); 32], content }
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
    let applied = |file: &str| Applied { uid: "u".to_owned(), file: file.to_owned() };
    let objects = plan.wanted.iter().map(|wanted| (wanted.key.clone(), applied(wanted.file)));
    Inventory { directory: PathBuf::from("/a"), objects: objects.collect() }
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
fn an_object_is_not_absent_while_its_kind_may_have_another_scope() {
    let farm = "apiVersion: example.com/v1\nkind: Farm\nmetadata: {name: f, namespace: default}\n";
    let mut inventory = inventory_of(&[file("a.yaml", farm)]);
    for (key, applied) in std::mem::take(&mut inventory.objects) {
        inventory.objects.insert(ObjectKey { namespace: String::new(), ..key }, applied);
    }
    let plan_files = [file("a.yaml", farm)];
    let plan = Plan::new(&plan_files, &served());
    assert!(plan.has_unserved());
    assert!(plan.absent(&inventory).is_empty());
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
fn a_directory_without_a_known_file_or_object_is_another_one() {
    let inventory = inventory_of(&[file("a.yaml", &config_map("a"))]);
    let is_foreign = |files: &[File]| Plan::new(files, &served()).is_foreign(files, &inventory);
    assert!(is_foreign(&[file("b.yaml", &config_map("b"))]));
    assert!(is_foreign(&[file("b.yaml", "a: {")]));
    assert!(!is_foreign(&[file("b.yaml", &config_map("a"))]), "the file was renamed");
    assert!(!is_foreign(&[file("a.yaml", &config_map("b"))]), "the file was edited");
    let files = [file("b.yaml", &config_map("b"))];
    assert!(!Plan::new(&files, &served()).is_foreign(&files, &Inventory::default()));
}

#[test]
fn a_removal_is_confirmed_by_an_equal_complete_scan_later() {
    let (mut stability, start) = (Stability::default(), Instant::now());
    let scan = |text: &str| Scan { files: vec![file("a.yaml", text)], ..Scan::default() };
    let (one, other) = (scan(&config_map("a")), scan(&(config_map("a") + &config_map("b"))));
    assert_eq!(stability.confirmed_at(&one, start), Some(start + plan::CONFIRM));
    let second = Duration::from_secs(1);
    assert_eq!(stability.confirmed_at(&one, start + second), Some(start + plan::CONFIRM));
    assert_eq!(stability.confirmed_at(&other, start + second), Some(start + second + plan::CONFIRM));
    for incomplete in [scan("a: {"), scan(""), Scan::default()] {
        assert_eq!(stability.confirmed_at(&incomplete, start), None);
        let again = start + 9 * second;
        assert_eq!(stability.confirmed_at(&one, again), Some(again + plan::CONFIRM), "it starts again");
    }
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
    ] {
        let found = scan.files.iter().find(|file| file.name == name).unwrap();
        let error = found.content.as_ref().unwrap_err();
        assert!(error.contains(why), "{name}: {error}");
    }
    assert!(!scan.is_complete());
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
    fs::write(&path, "{").unwrap();
    let damaged = load("/a");
    assert!(damaged.inventory.objects.is_empty() && damaged.notice.unwrap().contains("damaged"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(inventory::load(&path, Path::new("/a")).is_err(), "it is unknown what was applied");
}
