//! A headless Chromium for tests of web pages, through chromedriver (W3C WebDriver over HTTP).

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::{Client, Method};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{DEADLINE, Port, Process, free_port, installed, trusting, wait_until};

/// The size of a window in CSS pixels, and its colours.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Whether the system prefers dark colours.
    pub is_dark: bool,
}

/// A desktop window and a phone, in light and dark.
pub const LOOKS: [Look; 4] = [
    Look { width: 1280, height: 900, is_dark: false },
    Look { width: 1280, height: 900, is_dark: true },
    Look { width: 390, height: 844, is_dark: false },
    Look { width: 390, height: 844, is_dark: true },
];

/// A browser with one tab and its own profile. Dropping the value ends it.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    session: String,
    driver: Process,
    folder: TempDir,
    _port: Port,
}

impl Browser {
    /// Starts a browser that accepts every server certificate, because nodes sign their own.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("browser").tempdir_in("/tmp").unwrap();
        let port = free_port();
        let mut command = Command::new(installed("chromium-driver", "chromedriver"));
        // The group has all processes of the browser.
        command.arg(format!("--port={port}")).env("TMPDIR", folder.path()).process_group(0);
        command.env("HOME", folder.path());
        let driver = Process::start(&mut command, &folder.path().join("driver.log"));
        let client = trusting("", None).unwrap();
        let server = format!("http://127.0.0.1:{port}");
        let profile = folder.path().join("profile");
        let flags = [
            // Chromium refuses to sandbox its processes as root.
            "--no-sandbox",
            "--headless=new",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "acceptInsecureCerts": true,
            "timeouts": {"script": DEADLINE.as_millis()},
            "goog:chromeOptions": {"args": flags, "binary": installed("chromium", "chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let begin = async || {
            let answer = send(&client, Method::POST, &format!("{server}/session"), &wanted).await?;
            answer["sessionId"].as_str().map(str::to_owned).ok_or_else(|| answer.to_string())
        };
        let id = wait_until(DEADLINE, begin).await.unwrap_or_else(|error| {
            let log = fs::read_to_string(folder.path().join("driver.log")).unwrap_or_default();
            panic!("chromedriver starts no browser: {error}\n{log}")
        });
        Self { client, session: format!("{server}/session/{id}"), driver, folder, _port: port }
    }

    /// Loads a URL, again if Chromium ended the connection because a pod changed the interfaces of the machine.
    pub async fn open(&self, url: &str) {
        let address = format!("{}/url", self.session);
        let load = async || {
            // Only a change of the fragment is no load, so leave the page first.
            for url in ["about:blank", url] {
                send(&self.client, Method::POST, &address, &json!({"url": url})).await?;
            }
            let place = self.run("return location.protocol").await;
            if place == "chrome-error:" { Err(self.text().await) } else { Ok(()) }
        };
        if let Err(error) = wait_until(DEADLINE, load).await {
            panic!("cannot load {url}: {error}");
        }
    }

    /// Runs the body of a JavaScript function in the page. Waits for the promise that it returns, if it is one.
    pub async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []})).await
    }

    /// The text of the page as a user sees it.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true in the page. Panics with the text of the page otherwise.
    pub async fn wait_for(&self, expression: &str) {
        let look = async || {
            let found = self.run(&format!("return Boolean({expression})")).await;
            if found == true { Ok(()) } else { Err(self.text().await) }
        };
        if let Err(seen) = wait_until(DEADLINE, look).await {
            panic!(
                "waited {DEADLINE:?} for {expression}; console: {:?}\nthe page is\n{seen}",
                self.complaints().await
            );
        }
    }

    /// Waits until the page shows a text.
    pub async fn wait_for_text(&self, text: &str) {
        self.wait_for(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    /// Types a text into the element with the focus, as a keyboard does. `\u{e004}` is Tab, `\u{e007}` is Enter.
    pub async fn press(&self, text: &str) {
        let keys =
            text.chars().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let actions =
            json!({"actions": [{"type": "key", "id": "keys", "actions": keys.collect::<Vec<_>>()}]});
        self.post("actions", &actions).await;
    }

    /// Changes the size of the window and the preferred colours.
    pub async fn set_look(&self, look: Look) {
        let Look { width, height, is_dark } = look;
        let scheme = if is_dark { "dark" } else { "light" };
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        let media = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            // The colours of a transition are not those that a user sees in the end.
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        for (cmd, params) in
            [("Emulation.setDeviceMetricsOverride", metrics), ("Emulation.setEmulatedMedia", media)]
        {
            self.post("goog/cdp/execute", &json!({"cmd": cmd, "params": params})).await;
        }
    }

    /// The violations of all rules of axe-core in the page: rule, selector and reason each.
    pub async fn violations(&self) -> Vec<String> {
        let axe = fs::read_to_string(axe_core()).unwrap();
        self.run(&format!("if (!window.axe) {{ {axe} }}")).await;
        let script = "return axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.flatMap(
            ({id, nodes}) => nodes.map(({target, failureSummary}) => `${id} at ${target}: ${failureSummary}`)))";
        let found = self.run(script).await;
        found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    /// Errors and warnings of the console since the last call, among them violations of the Content-Security-Policy.
    /// Failed requests are left out: Chromium ends its connections whenever a pod changes the interfaces of the machine.
    pub async fn complaints(&self) -> Vec<String> {
        let found = self.post("se/log", &json!({"type": "browser"})).await;
        let lines = found.as_array().unwrap().iter().filter(|line| line["level"] != "INFO");
        let texts = lines.map(|line| line["message"].as_str().unwrap().to_owned());
        texts.filter(|text| !text.contains("Failed to load resource")).collect()
    }

    async fn post(&self, command: &str, body: &Value) -> Value {
        let url = format!("{}/{command}", self.session);
        send(&self.client, Method::POST, &url, body).await.unwrap_or_else(|error| {
            let log = fs::read_to_string(self.folder.path().join("driver.log")).unwrap_or_default();
            panic!("{command} failed: {error}\n{log}")
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.driver.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.driver.kill();
    }
}

/// Sends a WebDriver command. Returns its value.
async fn send(client: &Client, method: Method, url: &str, body: &Value) -> Result<Value, String> {
    let answer = client.request(method, url).json(body).timeout(DEADLINE * 2).send();
    let answer = answer.await.map_err(|error| error.to_string())?;
    let is_success = answer.status().is_success();
    let mut body: Value = answer.json().await.map_err(|error| error.to_string())?;
    let value = body["value"].take();
    if is_success { Ok(value) } else { Err(value["message"].to_string()) }
}

/// Path of the script of axe-core, which `hack/setup.sh test` fetches.
fn axe_core() -> PathBuf {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = top.join("target/setup/axe-core/axe.min.js");
    assert!(path.exists(), "{} is missing: run hack/setup.sh test", path.display());
    path
}
