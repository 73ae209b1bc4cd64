//! Reads the sources of k8s-pb, which are generated and so of one form: the number and wire type of every field.

use std::collections::BTreeMap;
use std::path::Path;

use super::sources::files;

/// Messages by folder and name without regard to case: `core.v1.podspec`.
pub type Messages = BTreeMap<String, Vec<Field>>;

/// A field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name, see [`plain`].
    pub name: String,
    /// What the attribute says before the number: `string, optional`, `btree_map = "string, message"`.
    pub wire: String,
    /// Its number.
    pub number: String,
    /// The message of the same folder that it holds, see [`plain`].
    pub message: String,
}

/// Every message of every group.
pub fn read(source: &Path) -> Messages {
    let mut messages = Messages::new();
    for file in files(source) {
        let folder: Vec<&str> = file.parent().unwrap().iter().map(|part| part.to_str().unwrap()).collect();
        let folder = folder[folder.len() - 2..].join(".");
        let text = std::fs::read_to_string(&file).unwrap();
        for message in text.split("\npub struct ").skip(1) {
            let (name, rest) = message.split_once(' ').unwrap();
            let body = rest.split("\n}").next().unwrap();
            messages.insert(
                format!("{folder}.{}", plain(name)),
                body.split("#[prost(").skip(1).map(field).collect(),
            );
        }
    }
    messages
}

fn field(text: &str) -> Field {
    let (attribute, rest) = text.split_once(")]").unwrap();
    let (wire, number) = attribute.split_once(", tag = \"").unwrap();
    let (name, of) = rest.trim_start().strip_prefix("pub ").unwrap().split_once(':').unwrap();
    let of = of.split("///").next().unwrap().trim().trim_end_matches([',', '>', ' ', '\n']);
    let message = of.rsplit(['<', ' ']).next().unwrap();
    // A message of another folder is never part of its parent in JSON.
    let message = if message.contains("::") { String::new() } else { plain(message) };
    Field {
        name: plain(name.trim_start_matches("r#")),
        wire: wire.to_owned(),
        number: number.trim_end_matches('"').to_owned(),
        message,
    }
}

/// A name without case and marks: the generators disagree on both.
pub fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
