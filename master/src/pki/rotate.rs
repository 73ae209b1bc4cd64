//! A new root beside the old one, until that is retired; and a new intermediate alone.
//!
//! What is new is made aside, in a directory that gets its name `next` once it is whole, and is then moved in place file by file:
//! a kill in between leaves something that whoever reads the directory next completes. Between the two roots stands a bridge,
//! the new root's key signed by the old root: whoever believes either believes what is shown. `retiring.crt` holds it, the
//! old root and the authorities below that; it is all that retiring takes away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use apiserver::tls::is_signed_by;
use jiff::Timestamp;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;

use super::authority::{Authority, Purpose};
use super::read::{self, Facts};
use super::{Error, INTERMEDIATE, INTERMEDIATE_NAME, Pair, ROOT, ROOT_NAME, Root};
use super::{files, generate, own_name, pem_of};

/// What of the old root stays until it is retired.
pub const RETIRING: &str = "retiring.crt";
/// The latest intermediate authorities that others have taken the place of, below the root there is or an older one: who shows the whole
/// way to that root stays known, and whoever looks has to know whose certificates those are.
pub const REPLACED: &str = "replaced.crt";
/// How many of them: certificates that they signed have ended before so many others came.
const MOST_REPLACED: usize = 8;
/// What is new and whole, and what is not whole yet.
const NEXT: &str = "next";
const UNFINISHED: &str = "next.tmp";
/// The files that are made anew, in the order in which they are put in place; the last by [`renew_intermediate`] alone.
const MOVED: [&str; 6] = [RETIRING, "root.key", "root.crt", "intermediate.key", "intermediate.crt", REPLACED];
/// How long a path below an old root has to be allowed to be: the bridge and an intermediate authority.
const BELOW: u32 = 2;

/// The old root for as long as it is believed.
#[derive(Debug)]
pub(super) struct Retiring {
    /// The new root, as the old one vouches for it.
    pub bridge: CertificateDer<'static>,
    /// The old root, then those that it vouches for.
    pub authorities: Vec<CertificateDer<'static>>,
}

impl Retiring {
    /// Reads it, where there is one beside that root.
    pub(super) fn read(directory: &Path, root: &CertificateDer<'static>) -> Result<Option<Self>, Error> {
        let path = directory.join(RETIRING);
        let refuse = |fault: String| {
            let remedy = "restore it from a backup, or move it away: the old root is retired then";
            Error::unusable(&path, fault, remedy)
        };
        let Some(pem) = files::read(&path)? else { return Ok(None) };
        let mut all = read::certificates(&pem).map_err(refuse)?;
        let bridge = all.remove(0);
        let key_of = |der: &[u8]| Facts::of(der).map(|facts| facts.public_key_info).map_err(refuse);
        let is_bridge = key_of(&bridge)? == key_of(root)?;
        if !is_bridge || !all.first().is_some_and(|old| is_signed_by(&bridge, old)) {
            return Err(refuse("holds no old root that vouches for root.crt".to_owned()));
        }
        Ok(Some(Self { bridge, authorities: all }))
    }
}

/// Makes a new root and a new intermediate authority. What the old ones signed holds, and both roots are believed, until
/// [`retire`].
///
/// # Errors
/// When a rotation is under way, the root's key is not there, or a file cannot be written.
pub fn begin(directory: &Path, now: Timestamp) -> Result<(), Error> {
    complete(directory)?;
    let path = directory.join(RETIRING);
    if files::read(&path)?.is_some() {
        let remedy = "retire that root first (`master rotate-ca --retire`)";
        return Err(Error::unusable(path, "holds a root that is not retired yet", remedy));
    }
    let (old, below) = signer(directory, now)?;
    if Facts::of(old.certificate()).is_ok_and(|facts| facts.path_length.is_some_and(|most| most < BELOW)) {
        let fault = "allows no two authorities below itself, and cannot vouch for another root";
        let remedy = "bring a new root from outside, and hand it out before it is put there";
        return Err(Error::unusable(directory.join(ROOT).with_extension("crt"), fault, remedy));
    }
    let key = generate(ROOT)?;
    let key_pem = key.serialize_pem();
    let name = own_name(ROOT_NAME, &key);
    let bridge = old.sign(&name, &[], &Purpose::Bridge, &key, now)?;
    let root = Authority::root(&name, key, now)?;
    let [intermediate_key, intermediate] = intermediate(&root, now)?;
    let retiring: Vec<_> = [bridge, old.certificate().clone()].into_iter().chain(below).collect();
    let new = [
        pem_of(&retiring),
        key_pem,
        pem_of(std::slice::from_ref(root.certificate())),
        intermediate_key,
        intermediate,
    ];
    put(directory, MOVED.into_iter().zip(new))
}

/// Makes a new intermediate authority below the root that is there. Who shows the whole way to the root stays known.
///
/// # Errors
/// As [`begin`].
pub fn renew_intermediate(directory: &Path, now: Timestamp) -> Result<(), Error> {
    complete(directory)?;
    let (root, mut replaced) = signer(directory, now)?;
    replaced.extend(self::replaced(directory));
    replaced.truncate(MOST_REPLACED);
    let [key, certificate] = intermediate(&root, now)?;
    let new = [(REPLACED, pem_of(&replaced)), ("intermediate.key", key), ("intermediate.crt", certificate)];
    put(directory, new.into_iter())
}

/// The authorities below the root that signed what a directory's nodes may show: the one there is, and those it took the place of. None
/// where a file does not read.
pub fn below_root(directory: &Path) -> Vec<CertificateDer<'static>> {
    let of = |name: &str| files::read(&directory.join(name)).ok().flatten();
    let of = |name: &str| of(name).and_then(|pem| read::certificates(&pem).ok()).unwrap_or_default();
    let root = of("root.crt").into_iter().next();
    let mut all = of("intermediate.crt");
    all.truncate(1);
    all.extend(replaced(directory));
    all.retain(|one| root.as_ref().is_some_and(|root| is_signed_by(one, root)));
    all
}

/// Those that others have taken the place of; what does not read is as if it were not there, for nothing is believed for it.
fn replaced(directory: &Path) -> Vec<CertificateDer<'static>> {
    let pem = files::read(&directory.join(REPLACED)).ok().flatten();
    pem.and_then(|pem| read::certificates(&pem).ok()).unwrap_or_default()
}

/// Takes the old root away: what it signed, and who knows it alone, is a stranger from then on. False where there is none.
///
/// # Errors
/// When the file cannot be removed.
pub fn retire(directory: &Path) -> Result<bool, Error> {
    complete(directory)?;
    let path = directory.join(RETIRING);
    match fs::remove_file(&path) {
        Ok(()) => files::sync(directory).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("remove", path)(error)),
    }
}

/// Puts in place what was made aside, where a kill or another process has left some of it.
///
/// # Errors
/// When a file cannot be moved.
pub fn complete(directory: &Path) -> Result<(), Error> {
    let next = directory.join(NEXT);
    if !next.is_dir() {
        return Ok(());
    }
    for name in MOVED {
        let (from, to) = (next.join(name), directory.join(name));
        match fs::rename(&from, &to) {
            // Moved before, or not made anew.
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

/// The root with its key, and the authorities below it.
fn signer(directory: &Path, now: Timestamp) -> Result<(Authority, Vec<CertificateDer<'static>>), Error> {
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
        Error::unusable(
            path,
            "is not there",
            "put the key of root.crt there for this, and take it away afterwards",
        )
    })?;
    Ok((authority, below))
}

/// A new intermediate authority below a root: its key and its certificate, PEM.
fn intermediate(root: &Authority, now: Timestamp) -> Result<[String; 2], Error> {
    let key: KeyPair = generate(INTERMEDIATE)?;
    let name = own_name(INTERMEDIATE_NAME, &key);
    let signed = root.sign(&name, &[], &Purpose::Intermediate, &key, now)?;
    Ok([key.serialize_pem(), pem_of(&[signed])])
}

/// Makes files aside, gives all of them their place in one step, and moves them there.
fn put(directory: &Path, new: impl Iterator<Item = (&'static str, String)>) -> Result<(), Error> {
    let aside: PathBuf = directory.join(UNFINISHED);
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
