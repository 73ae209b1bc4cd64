//! Rotation of the root CA and renewal of the intermediate CA.
//!
//! New files are first written to a directory, which is renamed to `next` when it is complete. Then they are moved
//! into place one by one. After an interruption, the next reader completes the move.
//!
//! During a rotation, a cross-signed certificate (the new root's key, signed by the old root) makes certificates
//! valid for clients that trust either root. `retiring.crt` contains it, the old root and the old intermediates. To
//! retire the old root, only this file is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use apiserver::tls::is_signed_by;
use jiff::Timestamp;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::ca::{Ca, Purpose};
use super::read::{self, CertificateInfo};
use super::{Error, INTERMEDIATE, INTERMEDIATE_NAME, Pair, ROOT, ROOT_NAME, Root};
use super::{files, generate, name_with_key_hash, pem_of};

/// File with the parts of the old root that are kept until it is retired.
pub const RETIRING: &str = "retiring.crt";
/// File with the intermediate CAs that were replaced last, of the current or an older root. Certificates that they
/// signed remain valid, and the master must be able to recognize these.
pub const REPLACED: &str = "replaced.crt";
/// Maximum number of replaced intermediate CAs that are kept. Older ones have only signed certificates that have
/// expired.
const MAX_REPLACED: usize = 8;
/// Directory of new files that are complete.
const NEXT: &str = "next";
/// Directory of new files while they are being written.
const NEXT_UNFINISHED: &str = "next.tmp";
/// The files that are moved, in order. Only [`renew_intermediate`] writes the last one.
const MOVED: [&str; 6] = [RETIRING, "root.key", "root.crt", "intermediate.key", "intermediate.crt", REPLACED];
/// Path length that the old root must allow, for the cross-signed root and an intermediate CA.
const MIN_PATH_LENGTH: u32 = 2;

/// The old root during a rotation.
#[derive(Debug)]
pub(super) struct Retiring {
    /// The new root, signed by the old one.
    pub cross_signed: CertificateDer<'static>,
    /// The old root and its intermediates.
    pub cas: Vec<CertificateDer<'static>>,
}

impl Retiring {
    /// Reads the file, if there is one, and checks that it belongs to the root.
    pub(super) fn read(directory: &Path, root: &CertificateDer<'static>) -> Result<Option<Self>, Error> {
        let path = directory.join(RETIRING);
        let refuse = |fault: String| {
            let remedy = "restore it from a backup, or move it away, which retires the old root";
            Error::unusable(&path, fault, remedy)
        };
        let Some(pem) = files::read(&path)? else { return Ok(None) };
        let mut all = read::certificates(&pem).map_err(refuse)?;
        let cross_signed = all.remove(0);
        let key_of = |der: &[u8]| CertificateInfo::of(der).map(|info| info.spki).map_err(refuse);
        let is_bridge = key_of(&cross_signed)? == key_of(root)?;
        if !is_bridge || !all.first().is_some_and(|old| is_signed_by(&cross_signed, old)) {
            return Err(refuse("contains no old root that signed root.crt".to_owned()));
        }
        Ok(Some(Self { cross_signed, cas: all }))
    }
}

/// Creates a new root and intermediate CA. Certificates signed by the old ones stay valid, and both roots are trusted
/// until [`retire`].
///
/// # Errors
/// If a rotation is in progress, the root key is missing, or a file cannot be written.
pub fn begin(directory: &Path, now: Timestamp) -> Result<(), Error> {
    complete(directory)?;
    let path = directory.join(RETIRING);
    if files::read(&path)?.is_some() {
        let remedy = "retire that root first (`master rotate-ca --retire`)";
        return Err(Error::unusable(path, "contains a root CA that is not retired yet", remedy));
    }
    let (old, below) = signer(directory, now)?;
    if CertificateInfo::of(old.certificate())
        .is_ok_and(|info| info.path_length.is_some_and(|most| most < MIN_PATH_LENGTH))
    {
        let fault = "does not allow two CAs below itself, so it cannot sign another root";
        let remedy = "create a new root outside of the cluster, and distribute it before putting it there";
        return Err(Error::unusable(directory.join(ROOT).with_extension("crt"), fault, remedy));
    }
    let key = generate(ROOT)?;
    let key_pem = key.serialize_pem();
    let name = name_with_key_hash(ROOT_NAME, &key);
    let cross_signed = old.sign(&name, &[], &Purpose::CrossSignedRoot, &key, now)?;
    let root = Ca::root(&name, key, now)?;
    let [intermediate_key, intermediate] = intermediate(&root, now)?;
    let retiring: Vec<_> = [cross_signed, old.certificate().clone()].into_iter().chain(below).collect();
    let new = [
        pem_of(&retiring),
        key_pem,
        pem_of(std::slice::from_ref(root.certificate())),
        intermediate_key,
        intermediate,
    ];
    stage_and_move(directory, MOVED.into_iter().zip(new))
}

/// Creates a new intermediate CA below the current root. Certificates signed by the old one stay valid for clients
/// that send the old one with them.
///
/// # Errors
/// The same as [`begin`].
pub fn renew_intermediate(directory: &Path, now: Timestamp) -> Result<(), Error> {
    complete(directory)?;
    let (root, mut replaced) = signer(directory, now)?;
    replaced.extend(self::replaced(directory));
    replaced.truncate(MAX_REPLACED);
    let [key, certificate] = intermediate(&root, now)?;
    let new = [(REPLACED, pem_of(&replaced)), ("intermediate.key", key), ("intermediate.crt", certificate)];
    stage_and_move(directory, new.into_iter())
}

/// The current and replaced intermediate CAs of the current root. Empty if a file cannot be read.
pub fn intermediates_below_root(directory: &Path) -> Vec<CertificateDer<'static>> {
    let of = |name: &str| files::read(&directory.join(name)).ok().flatten();
    let of = |name: &str| of(name).and_then(|pem| read::certificates(&pem).ok()).unwrap_or_default();
    let root = of("root.crt").into_iter().next();
    let mut all = of("intermediate.crt");
    all.truncate(1);
    all.extend(replaced(directory));
    all.retain(|one| root.as_ref().is_some_and(|root| is_signed_by(one, root)));
    all
}

/// The replaced intermediate CAs. Unreadable files are ignored, because no trust depends on them.
fn replaced(directory: &Path) -> Vec<CertificateDer<'static>> {
    let pem = files::read(&directory.join(REPLACED)).ok().flatten();
    pem.and_then(|pem| read::certificates(&pem).ok()).unwrap_or_default()
}

/// Retires the old root. Certificates that it signed become invalid, and clients that trust only the old root lose
/// access. Returns false if there is none.
///
/// # Errors
/// If the file cannot be removed.
pub fn retire(directory: &Path) -> Result<bool, Error> {
    complete(directory)?;
    let path = directory.join(RETIRING);
    match fs::remove_file(&path) {
        Ok(()) => files::sync(directory).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("remove", path)(error)),
    }
}

/// Completes an interrupted move of new files.
///
/// # Errors
/// If a file cannot be moved.
pub fn complete(directory: &Path) -> Result<(), Error> {
    let next = directory.join(NEXT);
    if !next.is_dir() {
        return Ok(());
    }
    for name in MOVED {
        let (from, to) = (next.join(name), directory.join(name));
        match fs::rename(&from, &to) {
            // Moved already, or not part of this change.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("move", from)(error));
            }
            _ => {}
        }
    }
    files::sync(directory)?;
    match fs::remove_dir(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", next)(error)),
        _ => files::sync(directory),
    }
}

/// The root CA with its key, and its intermediates.
fn signer(directory: &Path, now: Timestamp) -> Result<(Ca, Vec<CertificateDer<'static>>), Error> {
    let [root, intermediate] = [Pair::read(directory, ROOT)?, Pair::read(directory, INTERMEDIATE)?];
    let (Some(certificates), Some(below)) = (root.certificates, intermediate.certificates) else {
        let path = directory.join(ROOT).with_extension("crt");
        return Err(Error::unusable(
            path,
            "or intermediate.crt is not there",
            "start `master run` with this --data-dir once",
        ));
    };
    let root = Root::check(directory, certificates, root.key, now)?;
    let authority = root.authority.ok_or_else(|| {
        let path = directory.join(ROOT).with_extension("key");
        Error::unusable(path, "is not there", "put the key of root.crt there, and remove it afterwards")
    })?;
    Ok((authority, below))
}

/// Creates an intermediate CA. Returns key and certificate in PEM.
fn intermediate(root: &Ca, now: Timestamp) -> Result<[String; 2], Error> {
    let key: KeyPair = generate(INTERMEDIATE)?;
    let name = name_with_key_hash(INTERMEDIATE_NAME, &key);
    let signed = root.sign(&name, &[], &Purpose::Intermediate, &key, now)?;
    Ok([key.serialize_pem(), pem_of(&[signed])])
}

/// Writes new files to a directory, renames it to `next`, and moves the files into place.
fn stage_and_move(directory: &Path, new: impl Iterator<Item = (&'static str, String)>) -> Result<(), Error> {
    let aside: PathBuf = directory.join(NEXT_UNFINISHED);
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", aside)(error));
        }
        _ => files::private_directory(&aside)?,
    }
    for (name, text) in new {
        let mode = if name.ends_with(".key") { files::SECRET } else { files::PUBLIC };
        files::write(&aside.join(name), text.as_bytes(), mode)?;
    }
    let next = directory.join(NEXT);
    fs::rename(&aside, &next).map_err(Error::io("move", aside))?;
    files::sync(directory)?;
    complete(directory)
}
