//! Tests of the test bed itself: ports, registry, server and machines work as the other tests expect.

mod leftovers;
mod machines;

use std::collections::HashSet;
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;
use tests::{Engine, PASSWORD, Registry, Server, USER, free_port, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn pull(engine: &Engine, image: &str, password: Option<&str>) -> Result<(), String> {
    let credentials = password.map(|password| DockerCredentials {
        username: Some(USER.to_owned()),
        password: Some(password.to_owned()),
        ..DockerCredentials::default()
    });
    let options = CreateImageOptionsBuilder::new().from_image(image).build();
    let steps = engine.docker().create_image(Some(options), None, credentials);
    steps.try_collect::<Vec<_>>().await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn private_test_registry_rejects_unauthenticated_clients() {
    let engine = Engine::connect().await;
    let registry = Registry::with_password().await;
    let image = registry.push(&engine, "team/app", "1").await;
    assert!(engine.docker().inspect_image(&image).await.is_err(), "a pushed image must be pulled");
    let refused = pull(&engine, &image, Some("wrong")).await.unwrap_err();
    assert!(refused.contains("unauthorized"), "{refused}");
    pull(&engine, &image, None).await.unwrap_err();
    pull(&engine, &image, Some(PASSWORD)).await.unwrap();
}

#[tokio::test]
async fn test_registry_keeps_images_while_it_is_stopped() {
    let engine = Engine::connect().await;
    let mut registry = Registry::open().await;
    let image = registry.push(&engine, "team/app", "1").await;
    registry.stop();
    pull(&engine, &image, None).await.unwrap_err();
    registry.resume().await;
    pull(&engine, &image, None).await.unwrap();
}

#[tokio::test]
async fn test_server_returns_304_until_its_body_changes() {
    let server = Server::start("one").await;
    let first = send_request(&server, "").await;
    assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("\r\n\r\none"), "{first}");
    let etag = first.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().to_owned();
    let known = format!("If-None-Match: {etag}\r\n");
    assert!(send_request(&server, &known).await.starts_with("HTTP/1.1 304"));
    server.serve(200, "two");
    assert!(send_request(&server, &known).await.ends_with("two"));
    let answers: Vec<u16> = server.requests().iter().map(|request| request.answer).collect();
    assert_eq!(answers, [200, 304, 200]);
}

async fn send_request(server: &Server, headers: &str) -> String {
    let address = server.url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET / HTTP/1.1\r\n{headers}\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn test_ports_are_allocated_once() {
    let ports: Vec<_> = (0..50).map(|_| free_port()).collect();
    let numbers: HashSet<u16> = ports.iter().map(|port| port.number).collect();
    assert_eq!(numbers.len(), ports.len());
}

#[tokio::test]
async fn a_timeout_reports_the_last_observation() {
    let mut looks = 0;
    let look = async || {
        looks += 1;
        if looks == 3 { Ok(looks) } else { Err(format!("look {looks}")) }
    };
    assert_eq!(wait_until(Duration::from_secs(5), look).await, Ok(3));
    let seen = wait_until(Duration::ZERO, async || Err::<(), _>("nothing yet".to_owned())).await;
    assert_eq!(seen, Err("nothing yet".to_owned()));
}
