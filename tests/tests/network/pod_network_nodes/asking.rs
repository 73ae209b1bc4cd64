//! A client sends a request to an address and checks which server answers, and which client address that server sees.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tests::manifest::{container, pod};
use tests::{DEADLINE, Machine, World, wait_until};

/// Timeout of one request: a lost packet gets no answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The host port of each answering pod.
pub const HOST_PORT: u16 = 8080;

/// The port on which the machines and the desk answer.
pub const NODE_PORT: u16 = 81;

/// A pod that answers on port 80 and on [`HOST_PORT`] of its host.
pub fn answering(name: &str) -> String {
    let script = "mkdir -p /tmp/www/cgi-bin; cd /tmp/www/cgi-bin\n\
        printf '%s\\n' '#!/bin/sh' 'echo Content-Type: text/plain' 'echo' 'echo $(hostname) sees $REMOTE_ADDR' >who\n\
        chmod +x who; trap 'exit 0' TERM; httpd -f -p 80 -h /tmp/www & wait";
    let more = format!("ports: [{{containerPort: 80, hostPort: {HOST_PORT}}}]");
    pod(name, &format!("containers:\n- {}", container("main", script, &more)))
}

/// Answers on [`NODE_PORT`] in the thread's network namespace until the test ends.
pub fn answer(name: &str) {
    let listener = TcpListener::bind(("::", NODE_PORT)).unwrap();
    let name = name.to_owned();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The client may have closed its connection already.
            let Ok(peer) = stream.peer_addr() else { continue };
            let mut request_bytes = [0; 1000];
            let _ = stream.read(&mut request_bytes);
            let _ = write!(stream, "HTTP/1.0 200 OK\r\n\r\n{name} sees {}\n", peer.ip().to_canonical());
        }
    });
}

/// Formats an IP address of either version with a port.
pub fn socket(ip: &str, port: u16) -> String {
    SocketAddr::new(ip.parse().unwrap(), port).to_string()
}

/// A client.
#[derive(Clone, Copy)]
pub enum Client<'a> {
    /// The pod of this name on a machine.
    Pod(&'a Machine, &'a str),
    Machine(&'a Machine),
    /// The test itself, on the host of the bed.
    Desk,
}

impl Client<'_> {
    /// The answer to a request to an address and port.
    ///
    /// # Errors
    /// If there is no answer, or an unexpected one.
    pub async fn send_request(self, to: &str) -> Result<String, String> {
        let answer = match self {
            Self::Pod(machine, name) => from_pod(&machine.node, name, to).await,
            Self::Machine(machine) => machine.at(|| get(to)),
            Self::Desk => get(to),
        };
        // Normalize the address notation of a dual-stack listener.
        answer.map(|answer| answer.trim().replace("[::ffff:", "").replace(['[', ']'], ""))
    }

    /// Waits until the answer is exactly the expected one: `NAME sees ADDRESS`.
    pub async fn receives(self, to: &str, expected: &str) {
        self.receives_one(to, |answer| answer == expected, expected).await;
    }

    /// Waits until the server of this name answers, whatever client address it sees.
    pub async fn reaches(self, to: &str, name: &str) {
        self.receives_one(to, |answer| answer.starts_with(&format!("{name} sees ")), name).await;
    }

    async fn receives_one(self, to: &str, is_right: impl Fn(&str) -> bool, expected: &str) {
        let look = async || match self.send_request(to).await {
            Ok(answer) if is_right(&answer) => Ok(()),
            other => Err(format!("{other:?} in place of {expected:?}")),
        };
        if let Err(seen) = wait_until(DEADLINE, look).await {
            panic!("{} asks {to}: {seen}\n{}", self.name(), self.state().await);
        }
    }

    fn name(self) -> String {
        match self {
            Self::Pod(machine, name) => format!("{name} on {}", machine.node.node),
            Self::Machine(machine) => machine.node.node.clone(),
            Self::Desk => "the desk".to_owned(),
        }
    }

    /// The network state of the client, for the message of a failed test.
    async fn state(self) -> String {
        let (Self::Pod(machine, _) | Self::Machine(machine)) = self else { return String::new() };
        let look =
            "ip address; ip route; ip -6 route; ip neighbour; bridge fdb; nft list ruleset 2>/dev/null";
        let events = machine.node.kubelet(&["get", "events", "-A"]).await;
        format!("{}{}{}", machine.run(look), events.stdout, machine.node.log_tail())
    }
}

async fn from_pod(world: &World, name: &str, to: &str) -> Result<String, String> {
    let container = world.container(name, "main").await?;
    let url = format!("http://{to}/cgi-bin/who");
    let patience = PATIENCE.as_secs().to_string();
    let words = ["timeout", &patience, "wget", "-qO-", &url];
    let (answer, code) = world.engine.exec(&container.id, &words).await;
    if code == 0 { Ok(answer) } else { Err(format!("{code}: {answer}")) }
}

fn get(to: &str) -> Result<String, String> {
    let request_bytes = || {
        let to: SocketAddr = to.parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /cgi-bin/who HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = request_bytes().map_err(|error| error.to_string())?;
    let body = answer.replace('\r', "");
    body.split_once("\n\n").map(|(_, body)| body.to_owned()).ok_or(answer)
}
