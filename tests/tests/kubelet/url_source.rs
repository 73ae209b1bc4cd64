//! Pods from a URL: the kubelet polls it, and keeps the last valid answer during errors.

use tests::manifest::{FOREVER, scripted, sleeper};
use tests::{Server, World};

async fn world(server: &Server) -> World {
    let flags = ["--manifest-url", &server.url, "--manifest-url-header", "X-Token:open sesame"];
    let mut world = World::new("url").await.with_flags(flags).with_config("httpCheckFrequency: 1s\n");
    world.start().await;
    world
}

/// Waits until the server has given that answer, and has then received that many further requests: an answer
/// with an ETag is not sent a second time.
async fn wait_for_requests(world: &World, server: &Server, answer: u16, times: usize) {
    let before = server.requests().len();
    let look = async || {
        let since = server.requests().split_off(before);
        let first = since.iter().position(|request| request.answer == answer);
        if first.is_some_and(|at| since.len() >= at + times) {
            Ok(())
        } else {
            Err(format!("the requests since then were {since:?}"))
        }
    };
    world.wait_for(&format!("{times} requests answered with {answer}"), look).await;
}

#[tokio::test]
async fn pods_follow_the_manifest_at_a_url() {
    let server = Server::start(&sleeper("web")).await;
    let world = world(&server).await;
    world.wait_ready("web").await;
    server.serve(200, &scripted("web", "Always", &format!("echo changed; {FOREVER}")));
    world.wait_for_log("web", "main", "changed").await;
    server.serve(200, &sleeper("other"));
    world.wait_gone("web").await;
    world.wait_ready("other").await;
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.headers["x-token"] == "open sesame"), "{requests:?}");
}

#[tokio::test]
async fn url_source_does_not_fetch_unchanged_manifests_again() {
    let server = Server::start(&sleeper("web")).await;
    let world = world(&server).await;
    let before = world.wait_ready("web").await;
    wait_for_requests(&world, &server, 304, 2).await;
    assert_eq!(world.pod("web").await.unwrap().container_id("main"), before.container_id("main"));
}

#[tokio::test]
async fn errors_and_empty_answers_change_nothing() {
    let server = Server::start(&sleeper("web")).await;
    let world = world(&server).await;
    let before = world.wait_ready("web").await;
    for (status, body) in [(500, "oops"), (404, ""), (200, ""), (200, "{\"kind\": \"Pod\", "), (204, "")] {
        server.serve(status, body);
        // The kubelet sends the second request after it has processed the first answer.
        wait_for_requests(&world, &server, status, 2).await;
        let now = world.pod("web").await.unwrap();
        assert_eq!(now.container_id("main"), before.container_id("main"), "after {status} {body:?}");
        assert!(now.is_ready());
    }
    server.serve(200, &sleeper("other"));
    world.wait_ready("other").await;
}

#[tokio::test]
async fn last_valid_url_response_survives_a_restart_without_the_server() {
    let server = Server::start(&sleeper("web")).await;
    let mut world = world(&server).await;
    let before = world.wait_ready("web").await;
    world.kill();
    server.serve(500, "down");
    world.start().await;
    wait_for_requests(&world, &server, 500, 2).await;
    assert_eq!(world.wait_ready("web").await.container_id("main"), before.container_id("main"));
}
