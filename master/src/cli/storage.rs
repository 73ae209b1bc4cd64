//! Parses and validates the flags for the storage backend.

use std::path::PathBuf;

use apiserver::storage::etcd::Endpoint;
use command::InvalidValue;

use super::values::one_of;
use crate::options::{Etcd, Options, Storage};

/// The flags that [`check`] validates together.
pub const FLAGS: &[&str] =
    &["--storage", "--etcd-servers", "--etcd-cafile", "--etcd-certfile", "--etcd-keyfile"];

/// Parses `--storage`.
pub fn kind(text: &str) -> Result<Storage, InvalidValue> {
    one_of(text, &["embedded", "etcd"])?;
    Ok(if text == "etcd" { Storage::Etcd } else { Storage::Embedded })
}

/// Parses a file path. The file is read at startup.
pub fn file(text: &str) -> Result<Option<PathBuf>, InvalidValue> {
    if text.is_empty() { Err("is not a file".to_owned()) } else { Ok(Some(PathBuf::from(text))) }
}

/// The errors in the combination of the flags.
pub fn check(options: &Options) -> Vec<String> {
    let etcd = &options.etcd;
    let has_tls = etcd.servers.iter().any(Endpoint::is_tls);
    let mistakes = match options.storage {
        Storage::Embedded => [(
            *etcd != Etcd::default(),
            "--etcd-servers and the other etcd flags need --storage etcd: add it, or remove them",
        )]
        .to_vec(),
        Storage::Etcd => [
            (
                etcd.servers.is_empty(),
                "--etcd-servers is missing: --storage etcd needs the URL of at least one member",
            ),
            (
                etcd.certificate.is_some() != etcd.key.is_some(),
                "--etcd-certfile and --etcd-keyfile must be used together",
            ),
            (
                has_tls && etcd.authority.is_none(),
                "--etcd-cafile is missing: https needs the CA certificate of etcd",
            ),
        ]
        .to_vec(),
    };
    mistakes.into_iter().filter(|(is_one, _)| *is_one).map(|(_, mistake)| mistake.to_owned()).collect()
}
