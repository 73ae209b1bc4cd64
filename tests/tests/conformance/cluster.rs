//! A master and an administrator's client that sends plain JSON.

use std::time::Duration;

use serde_json::{Value, json};
use tests::{DEADLINE, Master, Output, wait_until};

/// How long a watch must be silent to count as quiet: a wrong event would arrive together with the change.
const QUIET: Duration = Duration::from_millis(200);

/// A master under test.
pub struct Cluster {
    pub master: Master,
    client: reqwest::Client,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    what: String,
    pub code: u16,
    pub headers: reqwest::header::HeaderMap,
    /// Null if the answer is no JSON.
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// Asserts the status code and returns the body.
    pub fn is(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}: {}", self.what, self.text);
        self.body
    }

    /// Whether the message of the answer contains these words.
    pub fn has_text(&self, words: &str) -> bool {
        self.body["message"].as_str().unwrap_or_default().contains(words)
    }

    /// Asserts this error code, with these words in the message.
    pub fn refuses(&self, code: u16, words: &str) {
        assert!(self.code == code && self.has_text(words), "{}: {} {}", self.what, self.code, self.text);
    }
}

/// An open watch.
pub struct Watch {
    path: String,
    response: reqwest::Response,
    rest: Vec<u8>,
}

impl Cluster {
    /// A new cluster with its own master.
    pub async fn running() -> Self {
        Self::of(Master::running().await)
    }

    /// A new cluster whose workloads the test plays.
    pub async fn without_workloads() -> Self {
        Self::of(Master::without_workloads().await)
    }

    /// The cluster of a running master.
    pub fn of(master: Master) -> Self {
        Self { client: master.client(), master }
    }

    /// Sends a request.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let url = format!("https://127.0.0.1:{}{path}", self.master.port);
        let method_of = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method_of, url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            request.timeout(DEADLINE).send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Answer { what: format!("{method} {path}"), code, headers, body, text }
    }

    async fn with(&self, method: &str, path: &str, kind: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", kind)], body.to_string()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.with("POST", path, "application/json", body).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.with("PUT", path, "application/json", body).await
    }

    /// Sends a merge patch.
    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.with("PATCH", path, "application/merge-patch+json", body).await
    }

    /// Reads, changes and puts an object; retries after a conflict.
    pub async fn update(&self, path: &str, change: impl Fn(&mut Value)) -> Value {
        let put = async || {
            let mut object = self.get(path).await.is(200);
            change(&mut object);
            match self.put(path, &object).await {
                answer if answer.code == 409 => Err(answer.text),
                answer => Ok(answer.is(200)),
            }
        };
        wait_until(DEADLINE, put).await.unwrap()
    }

    /// Sends a server-side apply.
    pub async fn apply(&self, path: &str, body: &Value) -> Answer {
        self.with("PATCH", path, "application/apply-patch+yaml", body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// Deletes with a propagation policy.
    pub async fn delete_with(&self, path: &str, propagation: &str) -> Answer {
        self.with("DELETE", path, "application/json", &json!({"propagationPolicy": propagation})).await
    }

    /// The names in a list, in its order.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await.is(200);
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    /// The resource version of a list.
    pub async fn revision(&self, path: &str) -> String {
        revision(&self.get(path).await.is(200))
    }

    /// Opens a watch; the path must have a query.
    pub async fn watch(&self, path: &str) -> Watch {
        let url = format!("https://127.0.0.1:{}{path}&watch=true", self.master.port);
        let response = self.client.get(url).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Watch { path: path.to_owned(), response, rest: Vec::new() }
    }

    /// Waits until the object at the path satisfies the condition.
    pub async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let look = async || match self.get(path).await {
            answer if answer.code == 200 && is(&answer.body) => Ok(answer.body),
            answer => Err(format!("{} {}", answer.code, answer.text)),
        };
        wait_until(DEADLINE, look)
            .await
            .unwrap_or_else(|seen| panic!("{path}: {seen}\n{}", self.master.log()))
    }

    /// Waits until the reasons of the events about an object of the namespace `default` satisfy the condition.
    /// The event recorder writes in the background, so an event can arrive after the status that it describes.
    pub async fn until_events(&self, name: &str, is: impl Fn(&[&str]) -> bool) {
        let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}");
        self.until(&path, |events| {
            let events = events["items"].as_array().into_iter().flatten();
            let reasons: Vec<&str> = events.filter_map(|event| event["reason"].as_str()).collect();
            is(&reasons)
        })
        .await;
    }

    /// Waits until the path answers with 404.
    pub async fn gone(&self, path: &str) {
        let look = async || match self.get(path).await {
            answer if answer.code == 404 => Ok(()),
            answer => Err(format!("{} {}", answer.code, answer.text)),
        };
        wait_until(DEADLINE, look).await.unwrap_or_else(|seen| panic!("{path} is there: {seen}"));
    }

    /// Creates a namespace and waits until pods can be created in it.
    pub async fn namespace(&self, name: &str) {
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.is(201);
        self.until(&format!("/api/v1/namespaces/{name}/serviceaccounts/default"), |_| true).await;
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, arguments: &[&str]) -> Output {
        self.master.kubectl(&self.master.data_dir().join("admin.kubeconfig"), arguments).await
    }
}

impl Watch {
    /// The next event: its type and object.
    pub async fn next(&mut self) -> (String, Value) {
        match tokio::time::timeout(DEADLINE, self.read()).await {
            Ok(Some(event)) => event,
            Ok(None) => panic!("{} ended", self.path),
            Err(_) => panic!("nothing comes of {}", self.path),
        }
    }

    /// Asserts the type and the object's name of the next event.
    pub async fn shows(&mut self, kind: &str, name: &str) -> Value {
        let (got, object) = self.next().await;
        assert_eq!(
            (got.as_str(), &object["metadata"]["name"]),
            (kind, &json!(name)),
            "{}: {object}",
            self.path
        );
        object
    }

    /// Skips events until one of this type for this object arrives.
    pub async fn comes_to(&mut self, kind: &str, name: &str) -> Value {
        self.until(kind, |object| object["metadata"]["name"] == name).await
    }

    /// Skips events until one of this type with a matching object arrives.
    pub async fn until(&mut self, kind: &str, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (got, object) = self.next().await;
            if got == kind && is(&object) {
                return object;
            }
        }
    }

    /// Asserts that no event arrives.
    pub async fn is_quiet(&mut self) {
        if let Ok(event) = tokio::time::timeout(QUIET, self.read()).await {
            panic!("{} shows {event:?}", self.path);
        }
    }

    async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].take()));
            }
            self.rest.extend(self.response.chunk().await.unwrap()?);
        }
    }
}

/// The resource version of an object or a list.
pub fn revision(of: &Value) -> String {
    of["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}
