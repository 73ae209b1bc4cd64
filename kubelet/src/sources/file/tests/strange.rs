//! Directory entries that are not regular files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::bed::{Bed, pod};
use crate::sources::file::scan::is_manifest;

#[test]
fn manifest_file_names_are_recognized() {
    for (name, expected) in [
        ("a.yaml", true),
        ("a.yml", true),
        ("a.json", true),
        ("a b.yaml", true),
        (".a.yaml", false),
        ("a.yaml~", false),
        ("a.yaml.bak", false),
        (".a.yaml.swp", false),
        ("#a.yaml#", false),
        ("a.YAML", false),
        ("yaml", false),
        ("..data", false),
        (".yaml", false),
        ("README.md", false),
    ] {
        assert_eq!(is_manifest(OsStr::new(name)), expected, "{name}");
    }
}

#[tokio::test]
async fn pipes_sockets_directories_and_huge_files_are_ignored() {
    let mut socket = None;
    let mut bed = Bed::start(|folder| {
        let manifests = folder.join("manifests");
        mkfifoat(CWD, manifests.join("fifo.yaml"), Mode::from_raw_mode(0o600)).unwrap();
        fs::create_dir(manifests.join("dir.yaml")).unwrap();
        fs::write(manifests.join("dir.yaml/inner.yaml"), pod("inner", "1")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", manifests.join("zero.yaml")).unwrap();
        std::os::unix::fs::symlink("nowhere", manifests.join("dangling.yaml")).unwrap();
        socket = UnixListener::bind(manifests.join("socket.json")).ok();
        let giant = fs::File::create(manifests.join("giant.yaml")).unwrap();
        giant.set_len(1 << 40).unwrap();
        fs::write(manifests.join("README.md"), "read me").unwrap();
        fs::write(manifests.join(".hidden.yaml"), pod("hidden", "1")).unwrap();
        fs::write(manifests.join("good.yaml"), pod("good", "1")).unwrap();
    })
    .await;
    assert_eq!(bed.last(), "good=1");
    let remedy = "put a file there, or give it a name that is not a manifest's";
    assert_eq!(
        bed.problems(),
        [
            format!("manifests/dir.yaml: this is a directory, not a file; {remedy}"),
            format!("manifests/fifo.yaml: this is a named pipe, not a file; {remedy}"),
            "manifests/giant.yaml: the file is 1099511627776 bytes long; the limit is 10485760; split it \
             into several files"
                .to_owned(),
            format!("manifests/socket.json: this is a socket, not a file; {remedy}"),
            format!("manifests/zero.yaml: this is a device, not a file; {remedy}"),
        ]
    );
    let folder = format!("{}/", bed.folder.path().display());
    let skipped: Vec<String> =
        bed.seen.last().unwrap().skipped.iter().map(|entry| entry.replace(&folder, "")).collect();
    assert_eq!(
        skipped,
        [
            "manifests/README.md: not read: manifests end in .json, .yaml or .yml; rename it, or move it out of the directory",
            "manifests/dangling.yaml: not read: the symbolic link has no target; restore the target, or remove the link",
        ]
    );
    fs::remove_file(bed.path("manifests/fifo.yaml")).unwrap();
    bed.write("manifests/fifo.yaml", &pod("fifo", "1"));
    bed.until("fifo=1 good=1").await;
}
