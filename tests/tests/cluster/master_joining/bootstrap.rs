//! The cluster-info document that a node trusts: from the master or from a host outside the cluster, but never from an
//! attacker.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use master::pki::ca_hash;
use serde_json::Value;
use tests::{DEADLINE, Master, binary, free_port, trusting, wait_until};

/// Discovery with a join string, as a node does it: fetches the document without verification, checks its CA against
/// the hash, and fetches it again over verified TLS.
pub async fn learn(join: &str) -> Result<Value, String> {
    let (server, hash) = join.split_once("#sha256:").ok_or("no hash")?;
    let url = format!("{server}/bootstrap/v1/cluster-info");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let anybody = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let cluster_info = send_request(&anybody, &url).await?;
    let authority = cluster_info["certificateAuthority"].as_str().unwrap_or_default();
    let found = ca_hash(authority.as_bytes())?;
    if found != hash {
        return Err(format!("another authority: {found}"));
    }
    send_request(&trusting(authority, None)?, &url).await
}

async fn send_request(client: &reqwest::Client, url: &str) -> Result<Value, String> {
    let response = client.get(url).send().await.map_err(|error| format!("{error:?}"))?;
    let code = response.status().as_u16();
    let text = response.text().await.map_err(|error| error.to_string())?;
    if code == 200 { serde_json::from_str(&text).map_err(|error| error.to_string()) } else { Err(text) }
}

/// The join string of a master on this machine.
pub async fn join_string(master: &Master) -> String {
    let printed = master.verb(&["join-string"]).await;
    assert_eq!(printed.code, 0, "{printed:?}");
    let line = printed.stdout.trim_end();
    let (_, hash) = line.split_once('#').unwrap();
    assert!(line.starts_with("https://") && printed.stdout.lines().count() == 1, "{line}");
    format!("https://127.0.0.1:{}#{hash}", master.port)
}

#[tokio::test]
async fn join_string_joins_only_its_own_cluster() {
    let (one, other) = (Master::running().await, Master::running().await);
    let join = join_string(&one).await;
    let cluster_info = learn(&join).await.unwrap();
    assert_eq!(
        (&cluster_info["apiVersion"], &cluster_info["kind"]),
        (&"bootstrap/v1".into(), &"ClusterInfo".into())
    );
    assert_eq!(cluster_info["nodeUserPrefix"], "kubelet:");
    assert_eq!(cluster_info["certificateAuthority"], one.admin().unwrap().authority.as_str());
    let servers = cluster_info["servers"].as_array().unwrap();
    assert!(servers[0].as_str().unwrap().ends_with(&format!(":{}", one.port)), "{servers:?}");
    let time: jiff::Timestamp = cluster_info["serverTime"].as_str().unwrap().parse().unwrap();
    assert!(time.duration_since(jiff::Timestamp::now()).abs() < jiff::SignedDuration::from_mins(1));
    // Another cluster at the same address, and a join string with a wrong digit.
    let swapped = join.replace(&one.port.to_string(), &other.port.to_string());
    let (start, last) = join.split_at(join.len() - 1);
    let wrong = format!("{start}{}", if last == "0" { "1" } else { "0" });
    for join in [swapped, wrong] {
        let refused = learn(&join).await.unwrap_err();
        assert!(refused.starts_with("another authority"), "{refused}");
    }
    let anonymous = trusting(&one.admin().unwrap().authority, None).unwrap();
    let (code, _) = one.send_request(&anonymous, "/bootstrap/v1/other").await.unwrap();
    assert_eq!(code, 403);
}

#[tokio::test]
async fn a_discovery_server_serves_the_same_cluster_info_and_nothing_else() {
    let master = Master::running().await;
    let made = master.verb(&["cluster-info", "--tls-san", "localhost,127.0.0.1"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let file = folder.path().join("cluster-info.json");
    fs::write(&file, &made.stdout).unwrap();
    let start = |file: &std::path::Path| {
        let mut command = tokio::process::Command::new(binary("master"));
        command.arg("discovery").arg("--cluster-info").arg(file);
        command.args(["--listen", &format!("127.0.0.1:{port}")]).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let mut running = start(&file);
    let join = join_string(&master).await.replace(&master.port.to_string(), &port.to_string());
    let cluster_info = wait_until(DEADLINE, async || learn(&join).await).await.unwrap();
    let of_master = learn(&join_string(&master).await).await.unwrap();
    for field in ["servers", "certificateAuthority", "nodeUserPrefix", "apiVersion", "kind"] {
        assert_eq!(cluster_info[field], of_master[field], "{field}");
    }
    assert!(
        cluster_info.get("servingKey").is_none() && cluster_info["serverTime"].is_string(),
        "{cluster_info}"
    );
    let client = trusting(&master.admin().unwrap().authority, None).unwrap();
    let refused = send_request(&client, &format!("https://127.0.0.1:{port}/api/v1/pods")).await.unwrap_err();
    assert!(refused.contains("NotFound"), "{refused}");
    running.start_kill().unwrap();
    let log = running.wait_with_output().await.unwrap().stderr;
    let log = String::from_utf8_lossy(&log).into_owned();
    let warning = "other users can read the private key in this file: run `chmod 600` on it";
    assert!(log.contains(warning) && log.contains("644") && log.contains("cluster-info.json"), "{log}");
    // With the CA of another cluster in the file the document would be useless, so the master does not serve it.
    let other = Master::running().await.admin().unwrap().authority;
    let mut swapped: Value = serde_json::from_str(&made.stdout).unwrap();
    swapped["certificateAuthority"] = other.into();
    let path = folder.path().join("swapped.json");
    fs::write(&path, swapped.to_string()).unwrap();
    let ended = start(&path).wait_with_output().await.unwrap();
    let error_output = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        !ended.status.success() && error_output.contains("does not lead to certificateAuthority"),
        "{error_output}"
    );
}
