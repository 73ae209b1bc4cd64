//! Kubeconfig files for one user of one cluster, with embedded credentials. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::pki::Credentials;

/// The contents of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeconfig {
    /// URL of the server, `https://HOST:PORT`.
    pub server: String,
    /// CA bundle in PEM.
    pub authority: String,
    /// Name of the user entry. The server uses the name in the certificate.
    pub user: String,
    /// Client certificate and key.
    pub credentials: Credentials,
}

impl Kubeconfig {
    /// Formats the file.
    pub fn text(&self) -> String {
        let user = quoted(&self.user);
        let context = quoted(&format!("{}@coracle", self.user));
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: coracle\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {authority}\nusers:\n- name: {user}\n  user:\n    \
             client-certificate-data: {certificates}\n    client-key-data: {key}\ncontexts:\n- name: {context}\n  \
             context:\n    cluster: coracle\n    user: {user}\ncurrent-context: {context}\n",
            server = quoted(&self.server),
            authority = encode(&self.authority),
            certificates = encode(&self.credentials.certificates),
            key = encode(&self.credentials.key),
        )
    }

    /// Parses a file that [`Self::text`] formatted. `None` for other contents.
    pub fn read(text: &str) -> Option<Self> {
        let file: Value = serde_yaml::from_str(text).ok()?;
        let decode = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok();
        let cluster = &file["clusters"][0]["cluster"];
        let user = &file["users"][0];
        Some(Self {
            server: cluster["server"].as_str()?.to_owned(),
            authority: decode(&cluster["certificate-authority-data"])?,
            user: user["name"].as_str()?.to_owned(),
            credentials: Credentials {
                certificates: decode(&user["user"]["client-certificate-data"])?,
                key: decode(&user["user"]["client-key-data"])?,
            },
        })
    }
}

/// Quotes a string. JSON strings are valid YAML.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    //! Tests that files can be parsed again.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn kubeconfig_round_trips_any_user_name(user in any::<String>(), key in "[ -~\n]{1,40}") {
            let config = Kubeconfig {
                server: "https://[::1]:6443".to_owned(),
                authority: "root".to_owned(),
                user,
                credentials: Credentials { certificates: "c".to_owned(), key },
            };
            prop_assert_eq!(Kubeconfig::read(&config.text()), Some(config));
        }

        #[test]
        fn reader_never_panics(text in any::<String>()) {
            let _ = Kubeconfig::read(&text);
        }
    }
}
