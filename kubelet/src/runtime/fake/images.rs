//! Images of the fake engine, and the images of its registry.

use std::collections::BTreeMap;

use crate::runtime::{Credentials, Error, Image, PullStep, Refusal};

/// Required user and password, or `None` for anonymous access.
type Rights = Option<(String, String)>;

#[derive(Default)]
pub(super) struct ImageStore {
    local: BTreeMap<String, Image>,
    published: BTreeMap<String, Rights>,
    pub pulls: Vec<String>,
}

impl ImageStore {
    pub fn with(names: &[&str]) -> Self {
        let mut shelf = Self::default();
        for name in names {
            shelf.put(name);
        }
        shelf
    }

    fn put(&mut self, name: &str) {
        let id = format!("sha256:{}", hex::encode(name));
        let name = short(name).to_owned();
        self.local
            .insert(name.clone(), Image { id, tags: vec![name], size_bytes: 1 << 20, ..Image::default() });
    }

    pub fn publish(&mut self, name: &str, user: Option<(&str, &str)>) {
        let rights = user.map(|(user, password)| (user.to_owned(), password.to_owned()));
        self.published.insert(short(name).to_owned(), rights);
    }

    pub fn all(&self) -> Vec<Image> {
        self.local.values().cloned().collect()
    }

    pub fn remove(&mut self, name: &str) {
        self.local.remove(short(name));
    }

    pub fn find(&self, name: &str) -> Option<Image> {
        let by_name = self.local.get(short(name));
        by_name.or_else(|| self.local.values().find(|image| image.id == name)).cloned()
    }

    /// The progress messages of a pull.
    pub fn pull(&mut self, name: &str, credentials: Option<&Credentials>) -> Vec<Result<PullStep, Error>> {
        let name = short(name).to_owned();
        self.pulls.push(
            credentials.map_or(name.clone(), |credentials| format!("{name} as {}", credentials.username)),
        );
        let step = |status: &str| {
            let (layer, status) = ("layer".to_owned(), status.to_owned());
            Ok(PullStep { layer, status, done_bytes: Some(1 << 20), total_bytes: Some(1 << 20) })
        };
        let refused = |message: &str| {
            vec![Err(Error::Refused {
                operation: "pull the image",
                message: message.to_owned(),
                cause: Refusal::AccessDenied,
            })]
        };
        match self.published.get(&name) {
            None => {
                vec![step("Pulling fs layer"), Err(Error::NotFound { what: format!("manifest of {name}") })]
            }
            Some(Some((user, password))) => match credentials {
                Some(credentials) if credentials.username == *user && credentials.password == *password => {
                    self.put(&name);
                    vec![step("Downloading"), step("Pull complete")]
                }
                Some(_) => refused("unauthorized: authentication required"),
                None => refused("no basic auth credentials"),
            },
            Some(None) => {
                self.put(&name);
                vec![step("Downloading"), step("Pull complete")]
            }
        }
    }
}

/// The short name of an image, as Docker shows it.
fn short(name: &str) -> &str {
    let rest = name.strip_prefix("docker.io/").unwrap_or(name);
    rest.strip_prefix("library/").unwrap_or(rest)
}
