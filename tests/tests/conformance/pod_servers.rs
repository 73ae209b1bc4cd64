//! Pods of one node with the native network. The test itself serves and connects in their network namespaces.

use std::fs::File;
use std::io;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use tests::Pod;
use tests::manifest::FOREVER;

use crate::node::{Node, shell};

/// The path of the namespace of these pods.
pub const HERE: &str = "/api/v1/namespaces/default";
/// Timeout of one request: a dropped packet gets no answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A transport protocol, as in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A node whose pods serve and connect.
pub struct Stage {
    pub node: Node,
    /// The network of the pod `client`.
    pub client: Network,
}

/// A network namespace: that of a pod, or that of the node.
pub struct Network(Option<File>);

impl Stage {
    /// A node with a pod `client` that has the hostname `first` and the subdomain `own`.
    pub async fn new(name: &str) -> Self {
        let node = Node::with_flags(name, "--scheduler=true", &["--pod-network", "native"]).await;
        let spec = json!({"hostname": "first", "subdomain": "own", "containers": [shell(FOREVER)]});
        node.make("client", json!({"spec": spec})).await;
        let client = network_of(&node, &node.ready("client").await).await;
        Self { node, client }
    }

    /// Creates a pod with the label `app: shop`, and serves in it on these ports by TCP and UDP. Returns its address.
    pub async fn serve(&self, name: &str, ports: &[u16]) -> String {
        let mut container = shell(FOREVER);
        let port = |number: &u16| json!({"name": format!("port-{number}"), "containerPort": number});
        container["ports"] = ports.iter().map(port).collect();
        self.serve_in(name, json!({"containers": [container]}), ports).await
    }

    /// The same with a pod spec of the test.
    pub async fn serve_in(&self, name: &str, spec: Value, ports: &[u16]) -> String {
        self.node.make(name, json!({"metadata": {"labels": {"app": "shop"}}, "spec": spec})).await;
        let pod = self.node.ready(name).await;
        for port in ports {
            network_of(&self.node, &pod).await.serve(name, *port);
        }
        pod.ip().to_owned()
    }

    /// Creates a Service, and returns it. The fields of `spec` are added to a selector of the pods of [`Stage::serve`].
    pub async fn service(&self, name: &str, spec: Value) -> Value {
        let mut service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": "shop"}}});
        service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.node.cluster.post(&format!("{HERE}/services"), &service).await.is(201)
    }

    /// Waits until twenty requests to an address and port are answered by exactly these pods.
    pub async fn answers(&self, protocol: Protocol, to: &str, expected: &[&str]) {
        let look = async || {
            let mut names: Vec<String> = Vec::new();
            for _ in 0..20 {
                names.push(first_word(&self.client.send_request(protocol, to)?));
            }
            names.sort();
            names.dedup();
            if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
        };
        self.node.world.wait_for(&format!("{expected:?} to answer at {protocol:?} {to}"), look).await;
    }

    /// Waits until connections to an address and port are refused.
    pub async fn refuses(&self, to: &str) {
        let look = async || match self.client.send_request(Protocol::Tcp, to) {
            Err(error) if error.contains("refused") => Ok(()),
            other => Err(format!("{other:?}")),
        };
        self.node.world.wait_for(&format!("{to} to refuse connections"), look).await;
    }
}

impl Network {
    /// The network of the node itself.
    pub fn of_the_node() -> Self {
        Self(None)
    }

    /// Answers every request to a port until the test ends. The answer by TCP is an HTTP response whose body is
    /// `NAME METHOD PATH`; by UDP it is the name.
    fn serve(self, name: &str, port: u16) {
        let (tcp, udp) = self.run(|| {
            (TcpListener::bind(("0.0.0.0", port)).unwrap(), UdpSocket::bind(("0.0.0.0", port)).unwrap())
        });
        let own = name.to_owned();
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                // The client may have closed its connection already.
                let _ = answer(stream, &own);
            }
        });
        let own = name.to_owned();
        thread::spawn(move || {
            let mut request = [0; 100];
            while let Ok((_, client)) = udp.recv_from(&mut request) {
                let _ = udp.send_to(own.as_bytes(), client);
            }
        });
    }

    /// The answer to a request from this network to an address and port.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn send_request(&self, protocol: Protocol, to: &str) -> Result<String, String> {
        let answer = self.run(|| match protocol {
            Protocol::Tcp => get(to),
            Protocol::Udp => ask(to),
        });
        answer.map_err(|error| error.to_string())
    }

    /// Runs a function on a thread in this network. Its sockets stay there.
    fn run<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let in_network = || {
            if let Self(Some(file)) = self {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            }
            what()
        };
        thread::scope(|scope| scope.spawn(in_network).join().unwrap())
    }
}

/// The network of a running pod.
async fn network_of(node: &Node, pod: &Pod) -> Network {
    let inspected = node.world.engine.inspect(pod.container_id("main")).await.unwrap();
    let pid = inspected.state.unwrap().pid.unwrap();
    Network(Some(File::open(format!("/proc/{pid}/ns/net")).unwrap()))
}

/// The first word of an answer: the name of the pod.
pub fn first_word(answer: &str) -> String {
    answer.split(' ').next().unwrap_or_default().to_owned()
}

fn answer(mut stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    let mut part = [0; 1000];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let body = format!("{name} {method} {path}");
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn get(to: &str) -> io::Result<String> {
    let address = to.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
}

fn ask(to: &str) -> io::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(to)?;
    socket.send(b"hello")?;
    let mut answer = [0; 100];
    let length = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
