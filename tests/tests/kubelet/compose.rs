//! `kubelet import`: a pod for a Compose file runs, and its services find each other.

use std::fs;
use std::path::Path;

use tests::{World, free_port};
use tokio::net::TcpStream;

use super::looking::send_request;

#[tokio::test]
async fn imported_services_start_in_order_and_find_each_other_by_name() {
    let world = World::running("import").await;
    let (port, project) = (free_port(), world.path("project"));
    fs::create_dir_all(&project).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/compose");
    let text = fs::read_to_string(example.join("compose.yaml")).unwrap();
    fs::copy(example.join("password.txt"), project.join("password.txt")).unwrap();
    fs::write(project.join("compose.yaml"), text.replace("8082:", &format!("{}:", port.number))).unwrap();
    fs::write(project.join(".env"), "GREETING='Hello, $friend'\n").unwrap();
    let file = project.join("compose.yaml").display().to_string();
    let volumes = world.path("volumes").display().to_string();

    let imported = world.kubelet(&["import", &file, "--volumes-dir", &volumes]).await;
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let warning = format!(
        "{file}:53:3: warning: volumes.data: the volume becomes the directory {volumes}/visits_data, which is empty at first"
    );
    assert!(
        imported.stderr.starts_with(&warning) && imported.stderr.lines().count() == 1,
        "{}",
        imported.stderr
    );
    world.write("visits.yaml", &imported.stdout);
    let checked = world.kubelet_check(&world.manifests().display().to_string()).await;
    assert_eq!((checked.code, checked.stdout.as_str()), (0, "3 objects fine\n"), "{}", checked.stderr);

    // The page exists only if the database was healthy before the web server started, and has its name.
    world.wait_ready("visits").await;
    let page = send_request(TcpStream::connect(("127.0.0.1", port.number)).await.unwrap(), "/").await;
    assert!(page.ends_with("Hello, $friend\n"), "{page}");
    let back = world
        .kubelet(&["exec", "visits", "-c", "db", "--", "wget", "-q", "-O", "-", "http://web:8080/"])
        .await;
    assert_eq!((back.code, back.stdout.as_str()), (0, "Hello, $friend\n"), "{}", back.stderr);
    let greeting = fs::read_to_string(Path::new(&volumes).join("visits_data/greeting")).unwrap();
    assert_eq!(greeting, "Hello, $friend\n", "the named volume is on the host");
}

#[tokio::test]
async fn import_reports_what_it_does_not_express_with_its_line() {
    let world = World::new("import-problems").await;
    let file = world.path("compose.yaml");
    fs::write(&file, "services:\n  web:\n    image: nginx\n    ulimits:\n      nofile: 1024\n").unwrap();
    let file = file.display().to_string();
    let imported = world.kubelet(&["import", &file]).await;
    assert_eq!(imported.code, 1, "{}", imported.stderr);
    let expected = format!("{file}:4:5: services.web.ulimits: `ulimits` is not expressed; ");
    assert!(imported.stderr.starts_with(&expected), "{}", imported.stderr);
    assert!(imported.stdout.contains("image: nginx"), "{}", imported.stdout);
    for (text, expected) in [
        ("services: [", "compose.yaml:1:"),
        ("a: 1\n", "cannot be read: the file has no `services`; is it a Compose file?"),
    ] {
        fs::write(&file, text).unwrap();
        let imported = world.kubelet(&["import", &file]).await;
        assert_eq!((imported.code, imported.stdout.as_str()), (2, ""), "{text}");
        assert!(imported.stderr.contains(expected), "{text}: {}", imported.stderr);
    }
    fs::remove_file(&file).unwrap();
    let imported = world.kubelet(&["import", &file]).await;
    assert_eq!(imported.code, 2);
    assert!(imported.stderr.contains("cannot be read: No such file"), "{}", imported.stderr);
}
