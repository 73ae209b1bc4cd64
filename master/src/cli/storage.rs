//! The flags of the store: what each may say, and what they must say together.

use std::path::PathBuf;

use apiserver::storage::etcd::Endpoint;
use command::Wanted;

use super::values::one_of;
use crate::options::{Etcd, Options, Storage};

/// What [`check`] looks at together.
pub const FLAGS: &[&str] =
    &["--storage", "--etcd-servers", "--etcd-cafile", "--etcd-certfile", "--etcd-keyfile"];

/// `embedded` or `etcd`.
pub fn kind(text: &str) -> Result<Storage, Wanted> {
    one_of(text, &["embedded", "etcd"])?;
    Ok(if text == "etcd" { Storage::Etcd } else { Storage::Embedded })
}

/// A file, which is read at the start.
pub fn file(text: &str) -> Result<Option<PathBuf>, Wanted> {
    if text.is_empty() { Err("is no file".to_owned()) } else { Ok(Some(PathBuf::from(text))) }
}

/// What the flags of the store say together and should not.
pub fn check(options: &Options) -> Vec<String> {
    let etcd = &options.etcd;
    let has_tls = etcd.servers.iter().any(Endpoint::is_tls);
    let mistakes = match options.storage {
        Storage::Embedded => [(
            *etcd != Etcd::default(),
            "--etcd-servers and its like are of use with --storage etcd alone: give that too, or leave them out",
        )]
        .to_vec(),
        Storage::Etcd => [
            (etcd.servers.is_empty(), "--etcd-servers is missing: --storage etcd needs the URL of one member at least"),
            (
                etcd.certificate.is_some() != etcd.key.is_some(),
                "--etcd-certfile and --etcd-keyfile go together: give both or none",
            ),
            (
                has_tls && etcd.authority.is_none(),
                "--etcd-cafile is missing: it names the authority of the certificate that an https etcd shows",
            ),
        ]
        .to_vec(),
    };
    mistakes.into_iter().filter(|(is_one, _)| *is_one).map(|(_, mistake)| mistake.to_owned()).collect()
}
