//! Every kubectl over SPDY: commands, file copies, and many concurrent forwarded connections.
//!
//! Since 1.30 kubectl tries a WebSocket first, since 1.31 also for ports. The minimal node rejects WebSockets, so
//! kubectl falls back to SPDY. The kubelet accepts them, and older versions use SPDY there.

mod node;
mod tunnel;

use std::fs;
use std::process::Output;

use futures_util::future::join_all;
use node::{ECHO, Node};
use tests::{DEADLINE, Kubectl, kubectls};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// More data than all buffers hold, without repetition, so that any loss or reordering shows.
fn megabyte(salt: u32) -> Vec<u8> {
    (0..1_000_000_u32).map(|n| ((n.wrapping_mul(31) ^ (n >> 8)).wrapping_add(salt) % 251) as u8).collect()
}

/// Runs a kubectl to its end.
async fn run(node: &Node, kubectl: &Kubectl, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = node.kubectl(kubectl).args(arguments).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The command may exit before it has read all input.
    tokio::spawn(async move { stdin.write_all(&input).await });
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
    output.unwrap_or_else(|_| panic!("kubectl 1.{} {arguments:?} did not end", kubectl.minor)).unwrap()
}

/// Arguments and input of a kubectl; its exit code, its stdout, and text that its stderr contains.
type Case<'a> = (&'a [&'a str], &'a [u8], i32, &'a [u8], &'a str);

#[tokio::test(flavor = "multi_thread")]
async fn exec_returns_output_and_exit_code() {
    let node = Node::tiny().await;
    let much = megabyte(0);
    for kubectl in kubectls() {
        let cases: [Case<'_>; 5] = [
            (&["exec", "web", "--", "echo", "hello"], b"", 0, b"hello\n", ""),
            (&["exec", "web", "--", "sh", "-c", "echo out; echo bad >&2; exit 3"], b"", 3, b"out\n", "bad\n"),
            (&["exec", "-i", "web", "--", "cat"], &much, 0, &much, ""),
            (&["exec", "-i", "web", "--", "head", "-c", "3"], &much, 0, &much[..3], ""),
            (&["exec", "web", "--", "no-such-program"], b"", 1, b"", "no-such-program: No such file"),
        ];
        for (arguments, input, code, stdout, stderr) in cases {
            let output = run(&node, &kubectl, arguments, input).await;
            let printed = String::from_utf8_lossy(&output.stderr);
            let what = format!("kubectl 1.{} {arguments:?}: {printed}", kubectl.minor);
            assert_eq!(output.status.code(), Some(code), "{what}");
            assert!(output.stdout == stdout, "{what}: {} bytes came", output.stdout.len());
            assert!(printed.contains(stderr), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_copies_files_in_both_directions() {
    let node = Node::tiny().await;
    for kubectl in kubectls() {
        let (minor, sent) = (kubectl.minor, megabyte(kubectl.minor));
        let there = node.pod().join(minor.to_string());
        fs::create_dir(&there).unwrap();
        let mine = |name: &str| node.folder().join(format!("{minor}-{name}")).display().to_string();
        fs::write(mine("sent"), &sent).unwrap();
        let remote = format!("web:{minor}/file");
        for arguments in [["cp", &mine("sent"), &remote], ["cp", &remote, &mine("got")]] {
            let output = run(&node, &kubectl, &arguments, b"").await;
            assert!(output.status.success(), "kubectl 1.{minor} {arguments:?}: {output:?}");
        }
        assert!(fs::read(there.join("file")).unwrap() == sent, "kubectl 1.{minor} sent something else");
        assert!(fs::read(mine("got")).unwrap() == sent, "kubectl 1.{minor} got something else");
    }
}

/// Sends a megabyte through a forwarded port and reads the echo concurrently.
async fn there_and_back(port: u16, salt: u32) -> bool {
    let (mut from, mut to) = TcpStream::connect(("127.0.0.1", port)).await.unwrap().into_split();
    let sent = megabyte(salt);
    let input = sent.clone();
    let sending = tokio::spawn(async move {
        to.write_all(&input).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    from.read_to_end(&mut got).await.unwrap();
    sending.await.unwrap();
    got == sent
}

/// Forwards two ports. One is an echo server, tested with several concurrent connections. Nothing listens on the other:
/// its connection closes and kubectl prints an error.
async fn forwards(node: &Node, kubectl: &Kubectl) {
    let minor = kubectl.minor;
    let ports = [format!(":{ECHO}"), ":81".to_owned()];
    let mut child = node.kubectl(kubectl).args(["port-forward", "pod/web"]).args(ports).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut local = Vec::new();
    while local.len() < 2 {
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
        let line = line.unwrap_or_else(|| panic!("kubectl 1.{minor} ended"));
        // `Forwarding from 127.0.0.1:40001 -> 7`, and the same for IPv6 where available.
        let Some(rest) = line.strip_prefix("Forwarding from 127.0.0.1:") else { continue };
        local.push(rest.split_once(' ').unwrap().0.parse::<u16>().unwrap());
    }
    let all = join_all((0..8).map(|salt| there_and_back(local[0], salt)));
    let came_back = tokio::time::timeout(DEADLINE, all).await;
    let came_back = came_back.unwrap_or_else(|_| panic!("kubectl 1.{minor}: not all came back"));
    assert_eq!(came_back, [true; 8], "kubectl 1.{minor}");
    let mut stream = TcpStream::connect(("127.0.0.1", local[1])).await.unwrap();
    let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut Vec::new())).await;
    let _ = ended.unwrap_or_else(|_| panic!("kubectl 1.{minor} holds on to a connection to nowhere"));
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = tokio::time::timeout(DEADLINE, printed.next_line()).await.unwrap().unwrap();
        let line = line.unwrap_or_else(|| panic!("kubectl 1.{minor} does not say what went wrong"));
        if line.contains("error forwarding port 81 to pod") {
            break;
        }
    }
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn port_forward_serves_concurrent_connections() {
    let node = Node::tiny().await;
    for kubectl in kubectls() {
        forwards(&node, &kubectl).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_serves_all_kubectl_versions() {
    let node = Node::kubelet().await;
    let much = megabyte(0);
    let found = kubectls();
    assert!(found.iter().any(|kubectl| kubectl.minor < 30), "no kubectl is old enough: {found:?}");
    for kubectl in found {
        // The fake engine runs `cat` for every command, except for those that exit at once.
        for (arguments, code, stdout) in [
            (&["exec", "-i", "web", "--", "cat"][..], 0, &much[..]),
            (&["exec", "web", "--", "exit", "3"], 3, b""),
        ] {
            let output = run(&node, &kubectl, arguments, &much).await;
            let what = format!("kubectl 1.{} {arguments:?}", kubectl.minor);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{what}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.stdout == stdout, "{what}: {} bytes came", output.stdout.len());
        }
        forwards(&node, &kubectl).await;
    }
}
