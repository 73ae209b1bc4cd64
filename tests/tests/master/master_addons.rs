//! `master run --addons DIR`: the objects of a directory exist while their manifests are in it, and no object is deleted
//! because files or directories cannot be read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tempfile::TempDir;
use tests::{DEADLINE, Master, wait_until};

/// A master with an add-on directory.
struct Bed {
    master: Master,
    folder: TempDir,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("addons");
        create_directory(&directory);
        let master = Master::new().with_flags([format!("--addons={}", directory.display())]);
        Self { master, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("addons").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Waits until the output of kubectl passes the check.
    async fn until(&self, arguments: &[&str], is_expected: impl Fn(&str) -> bool) {
        let admin = self.master.data_dir().join("admin.kubeconfig");
        let look = async || match self.master.kubectl(&admin, arguments).await {
            output if output.code == 0 && is_expected(output.stdout.trim()) => Ok(()),
            output => Err(format!("{output:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| {
            panic!("kubectl {arguments:?} does not print what is expected: {seen}\n{}", self.master.log())
        });
    }

    /// Waits until the ConfigMaps of the namespace `shop` have this value of a JSON path.
    async fn config_maps(&self, value: &str, expected: &str) {
        let path = format!("jsonpath={{.items[*].{value}}}");
        let selector = "--field-selector=metadata.name!=kube-root-ca.crt";
        let arguments = ["get", "configmaps", "-n", "shop", selector, "-o", &path];
        self.until(&arguments, |seen| seen == expected).await;
    }

    /// Waits until an event about the add-ons has this text.
    async fn event(&self, reason: &str, text: &str) {
        let selector = format!("--field-selector=reason={reason},involvedObject.name=coracle-addons");
        let arguments =
            ["get", "events", "-n", "kube-system", &selector, "-o", "jsonpath={.items[*].message}"];
        self.until(&arguments, |seen| seen.contains(text)).await;
    }
}

/// Creates a directory that not every user may write, whatever the umask is.
fn create_directory(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn config_map(name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {{value: v{value}}}\n"
    )
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

#[tokio::test]
async fn the_directory_is_followed_also_across_a_restart() {
    let mut bed = Bed::new();
    bed.write("one.yaml", &(config_map("a", "1") + &config_map("b", "1")));
    bed.write("two.yaml", NAMESPACE);
    bed.master.start().await;
    bed.config_maps("metadata.name", "a b").await;

    // An edit, and a broken file, which affects no other.
    bed.write("one.yaml", &(config_map("a", "2") + &config_map("b", "2")));
    bed.config_maps("data.value", "v2 v2").await;
    bed.write("one.yaml", "a: {");
    bed.write("three.yaml", &config_map("c", "3"));
    bed.config_maps("metadata.name", "a b c").await;
    bed.event("AddonNotApplied", "one.yaml: document 1 (line 1)").await;
    bed.write("one.yaml", &config_map("a", "4"));
    bed.config_maps("metadata.name", "a c").await;

    // A change while the master does not run.
    bed.master.stop(Signal::TERM).await;
    fs::remove_file(bed.path("three.yaml")).unwrap();
    bed.master.start().await;
    bed.config_maps("metadata.name", "a").await;

    // A namespace is deleted only if its annotation permits it.
    bed.write(
        "two.yaml",
        &NAMESPACE.replace("{name: shop}", "{name: shop, annotations: {addons.coracle.io/prune: 'true'}}"),
    );
    let annotation = r"jsonpath={.metadata.annotations.addons\.coracle\.io/prune}";
    bed.until(&["get", "namespace", "shop", "-o", annotation], |seen| seen == "true").await;
    bed.write("one.yaml", &config_map("a", "4").replace("shop", "default"));
    fs::remove_file(bed.path("two.yaml")).unwrap();
    bed.until(&["get", "namespace", "shop", "--ignore-not-found", "-o", "name"], str::is_empty).await;
}

#[tokio::test]
async fn objects_of_missing_directories_and_empty_files_remain_across_a_restart() {
    let mut bed = Bed::new();
    bed.write("shop.yaml", NAMESPACE);
    bed.write("a.yaml", &config_map("a", "1"));
    bed.write("b.yaml", &config_map("b", "1"));
    bed.master.start().await;
    bed.config_maps("metadata.name", "a b").await;

    bed.write("a.yaml", "");
    bed.event("AddonNotPruned", "because not every file can be read").await;
    bed.write("a.yaml", &config_map("a", "2"));
    bed.config_maps("data.value", "v2 v1").await;

    // The directory is moved away, as if its file system was not mounted, and an empty one takes its place.
    bed.master.stop(Signal::TERM).await;
    let moved = bed.folder.path().join("moved");
    fs::rename(bed.path(""), &moved).unwrap();
    bed.master.start().await;
    bed.event("AddonNotApplied", "No such file or directory").await;
    create_directory(&bed.path(""));
    bed.event("AddonNotPruned", "because the directory is empty").await;
    bed.config_maps("metadata.name", "a b").await;

    // The namespace stays, and the rest is pruned after the directory is back.
    fs::remove_dir(bed.path("")).unwrap();
    fs::rename(&moved, bed.path("")).unwrap();
    fs::remove_file(bed.path("shop.yaml")).unwrap();
    fs::remove_file(bed.path("b.yaml")).unwrap();
    bed.config_maps("metadata.name", "a").await;
    bed.event("AddonNotPruned", "Namespace shop of shop.yaml: remains").await;
}
