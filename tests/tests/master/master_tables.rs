//! What kubectl prints of each kind.

use std::fs;
use std::path::Path;

use tests::{Master, kubectls};

/// A minimal object of each kind that clients can create, and the column headers of its table.
const OBJECTS: &str = include_str!("master_tables/objects.yaml");
const HEADS: &str = include_str!("master_tables/heads.txt");

/// Output of a kubectl command that must succeed.
async fn output_of(master: &Master, kubectl: &Path, arguments: &[&str]) -> String {
    let admin = master.data_dir().join("admin.kubeconfig");
    let output = master.kubectl_at(kubectl, &admin, arguments).await;
    let called = format!("{} {}", kubectl.display(), arguments.join(" "));
    assert!(output.code == 0, "{called}: {output:?}\n{}", master.log());
    output.stdout
}

#[tokio::test]
async fn every_kind_has_its_table_columns() {
    let master = Master::running().await;
    master.until_account("default").await;
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects.yaml");
    fs::write(&objects, OBJECTS).unwrap();
    let kubectl = kubectls().pop().unwrap().path;
    let created = output_of(&master, &kubectl, &["create", "-f", &objects.display().to_string()]).await;
    let served = output_of(&master, &kubectl, &["api-resources", "--verbs=create,list", "-o", "name"]).await;
    let mut untold: Vec<&str> = served.lines().collect();
    for line in HEADS.lines() {
        let (resource, heads) = line.split_once(": ").unwrap();
        untold.retain(|served| *served != resource);
        let table = output_of(&master, &kubectl, &["get", resource, "-o", "wide", "-A"]).await;
        let first = table.lines().next().unwrap_or_default();
        let columns: Vec<&str> = first.split("  ").map(str::trim).filter(|head| !head.is_empty()).collect();
        let columns = columns.into_iter().filter(|head| *head != "NAMESPACE").collect::<Vec<_>>().join(", ");
        assert_eq!(columns, heads, "{resource}\n{created}");
    }
    assert!(untold.is_empty(), "no table was looked at of {untold:?}");
}
