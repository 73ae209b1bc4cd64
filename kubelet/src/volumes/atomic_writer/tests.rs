//! Random sequences of file sets with interruptions: a reader never sees a partial set.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use super::{DATA, File, Files, Step, inspect, is_filled, new_name, plan, take, write};

fn files(set: &[(&str, &str)]) -> Files {
    set.iter().map(|(path, data)| ((*path).to_owned(), File::new(data.as_bytes(), 0o644))).collect()
}

/// All files below a directory, with content and mode.
fn read(directory: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            // Follows the symlinks into the data, as a container does.
            if path.is_dir() {
                open.push(path);
                continue;
            }
            // A name of the old set may lead to a file that the new set lacks; it is not found, as after the update.
            let Ok(is) = path.metadata() else { continue };
            let mode = is.permissions().mode() & 0o7777;
            let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            found.insert(name, File::new(&std::fs::read(&path).unwrap(), mode));
        }
    }
    found
}

/// The files that a container sees, without the writer's own names.
fn visible(directory: &Path) -> Files {
    read(directory).into_iter().filter(|(path, _)| !path.starts_with("..")).collect()
}

/// Nothing remains of earlier sets.
fn assert_tidy(directory: &Path) {
    let own = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(own.filter(|name| name.starts_with("..")).count(), 2, "..data and where it leads");
}

#[test]
fn writer_replaces_each_set_of_files() {
    let root = tempfile::tempdir().unwrap();
    assert!(!is_filled(root.path()));
    for (set, changes) in [
        (files(&[("a", "1"), ("dir/b", "2"), ("dir/deep/c", "3")]), true),
        (files(&[("a", "1"), ("dir/b", "2"), ("dir/deep/c", "3")]), false),
        (files(&[("a", "1"), ("dir/b", "2")]), true),
        (files(&[("a/was/a/file", "1"), ("dir", "was a directory")]), true),
        (files(&[("a/was/a/file", ""), ("dir", "was a directory")]), true),
        (files(&[]), true),
        (files(&[]), false),
    ] {
        assert_eq!(write(root.path(), &set, None).unwrap(), changes);
        assert_eq!(visible(root.path()), set);
        assert!(is_filled(root.path()));
        assert_tidy(root.path());
    }
}

#[test]
fn writer_updates_modes_and_owners() {
    let root = tempfile::tempdir().unwrap();
    let mut set = files(&[("a", "1")]);
    assert!(write(root.path(), &set, None).unwrap());
    set.get_mut("a").unwrap().mode = 0o000;
    assert!(write(root.path(), &set, None).unwrap());
    assert_eq!(visible(root.path())["a"].mode, 0);
    assert!(write(root.path(), &set, Some(2000)).unwrap());
    assert_eq!(visible(root.path())["a"].mode, 0o440);
    set.get_mut("a").unwrap().user = Some(7);
    assert!(write(root.path(), &set, Some(2000)).unwrap());
    assert!(!write(root.path(), &set, Some(2000)).unwrap());
}

#[test]
fn writer_replaces_foreign_files_but_nothing_outside_the_volume() {
    let root = tempfile::tempdir().unwrap();
    let (volume, outside) = (root.path().join("volume"), root.path().join("outside"));
    let set = files(&[("a", "1")]);
    // Whatever `..data` points to, only a directory in the volume is treated as old data.
    for target in
        [outside.to_str().unwrap(), "../outside", "../volume/../outside", ".", "..", "..data", "..gone", "a"]
    {
        std::fs::create_dir_all(&volume).unwrap();
        std::fs::create_dir_all(outside.join("deep")).unwrap();
        std::fs::write(outside.join("deep/precious"), "").unwrap();
        std::fs::write(volume.join("a"), "foreign").unwrap();
        std::fs::create_dir_all(volume.join("..old/x")).unwrap();
        std::os::unix::fs::symlink(&outside, volume.join("..old/way-out")).unwrap();
        std::os::unix::fs::symlink(&outside, volume.join("stray")).unwrap();
        std::os::unix::fs::symlink(target, volume.join(DATA)).unwrap();
        std::os::unix::fs::symlink("gone", volume.join("..data_tmp")).unwrap();
        assert!(!is_filled(&volume), "{target}");
        write(&volume, &set, None).unwrap();
        assert!(outside.join("deep/precious").exists(), "{target}");
        assert_eq!(visible(&volume), set, "{target}");
        assert_tidy(&volume);
        std::fs::remove_dir_all(&volume).unwrap();
    }
}

#[test]
fn writer_never_leaves_the_volume() {
    let root = tempfile::tempdir().unwrap();
    let (volume, outside) = (root.path().join("volume"), root.path().join("outside"));
    std::fs::create_dir_all(&volume).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    for name in [outside.to_str().unwrap(), "../outside", "..", ".", "", "x/../../outside"] {
        let step = Step::Remove(name.to_owned());
        assert!(take(&volume, &Files::new(), None, &step).is_err(), "{name}");
    }
    assert!(outside.exists() && volume.exists());
}

fn any_set() -> impl Strategy<Value = Files> {
    let path = prop_oneof!["[ab]", "d/[ab]", "d/e/[ab]", "f/[ab]"];
    let set =
        prop::collection::btree_map(path, ("[xy]{0,3}", prop_oneof![Just(0o644u32), Just(0o400)]), 0..6);
    set.prop_map(|set: BTreeMap<String, (String, u32)>| {
        set.into_iter().map(|(path, (data, mode))| (path, File::new(data.as_bytes(), mode))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn reader_sees_either_the_old_or_the_new_set(
        history in prop::collection::vec((any_set(), prop::option::of(0usize..20)), 1..6),
        last in any_set(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join(DATA);
        let mut stands: Option<Files> = None;
        for (set, cut) in history {
            let seen = inspect(root.path(), &set, None).unwrap();
            let name = new_name(root.path());
            let steps = plan(&seen, &set, &name);
            for step in steps.iter().take(cut.unwrap_or(usize::MAX)) {
                take(root.path(), &set, None, step).unwrap();
                match &stands {
                    Some(old) => {
                        let now = read(&data);
                        prop_assert!(now == *old || now == set, "{step:?} shows {now:?}");
                    }
                    None => prop_assert!(!data.exists() || read(&data) == set),
                }
                // Every visible file belongs to the current set.
                for (path, file) in visible(root.path()) {
                    prop_assert!(read(&data).get(&path) == Some(&file), "{path}");
                }
            }
            stands = data.exists().then(|| read(&data));
        }
        write(root.path(), &last, None).unwrap();
        prop_assert_eq!(visible(root.path()), last);
        assert_tidy(root.path());
    }
}
