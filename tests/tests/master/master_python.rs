//! Tests with the Python client: classes, watches, discovery, definitions, leader election.

use std::path::Path;

use tests::{DEADLINE, Master, Python};

#[tokio::test]
async fn python_client_lists_watches_and_writes() {
    let master = Master::without_workloads().await;
    let python = Python::new();
    let mut command = python.command("python");
    command.args(["-m", "unittest", "discover", "--verbose", "--start-directory"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/master/master_python"));
    command.env("KUBECONFIG", master.data_dir().join("admin.kubeconfig"));
    // The script runs thirty tests one after the other.
    let output = python.run(command, DEADLINE * 4).await;
    assert!(output.code == 0, "{}\n{}\n{}", output.stdout, output.stderr, master.log());
    assert!(!output.stderr.contains("Ran 0 tests"), "{}", output.stderr);
}
