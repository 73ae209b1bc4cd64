//! Parses the generated sources of k8s-pb: the number and wire type of each field.

use std::collections::BTreeMap;
use std::path::Path;

use super::sources::files;

/// Messages by folder and lower-case name: `core.v1.podspec`.
pub type Messages = BTreeMap<String, Vec<Field>>;

/// A field of a message.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name, see [`plain`].
    pub name: String,
    /// The attribute before the number: `string, optional`, `btree_map = "string, message"`.
    pub wire: String,
    /// The number.
    pub number: String,
    /// The message type in the same folder, see [`plain`].
    pub message: String,
}

/// All messages of all groups.
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
    // Only messages of the same folder can be inlined in JSON.
    let message = if message.contains("::") { String::new() } else { plain(message) };
    Field {
        name: plain(name.trim_start_matches("r#")),
        wire: wire.to_owned(),
        number: number.trim_end_matches('"').to_owned(),
        message,
    }
}

/// A name in lower case without punctuation, because the generators differ in both.
pub fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
