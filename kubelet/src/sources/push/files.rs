//! Files of pushed objects: one per object, written atomically, with a checksum in the last line.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Directory in the root directory.
const DIRECTORY: &str = "pushed";
/// Extension of the files.
const EXTENSION: &str = "json";
/// Extension of damaged files, which stay on disk under this name.
const DAMAGED: &str = "damaged";
/// Maximum length of the readable part of a file name in bytes. Linux limits names to 255.
const READABLE_BYTES: usize = 180;
/// Bytes of the hash of the key in a file name, which makes it unique.
const HASH_BYTES: usize = 8;

/// The directory of pushed objects.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where the file is now.
    pub path: PathBuf,
    /// Why it cannot be used.
    pub why: String,
}

impl Damage {
    /// A file that may be intact, and stays where it is.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let why = format!("it cannot be read: {error}; restart the kubelet when it can be read");
        Self { path: path.to_owned(), why }
    }
}

/// What the directory contains.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The encoded objects, ordered by file name, with their files.
    pub objects: Vec<(PathBuf, Vec<u8>)>,
    /// Files that cannot be used.
    pub damaged: Vec<Damage>,
}

impl Files {
    /// The files in a root directory.
    pub fn new(root_dir: &Path) -> Self {
        Self { directory: root_dir.join(DIRECTORY) }
    }

    /// Reads all objects, and removes what an interrupted write has left. A damaged file is renamed, so that a later
    /// write of the same object does not overwrite it. A file that cannot be read stays.
    ///
    /// # Errors
    /// If the directory exists and cannot be listed.
    pub fn load(&self) -> io::Result<Loaded> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
            entries => entries?,
        };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        let mut loaded = Loaded::default();
        for path in paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("tmp") => drop(fs::remove_file(&path)),
                Some(EXTENSION) => match fs::read(&path).map(checked) {
                    Ok(Ok(value)) => loaded.objects.push((path, value)),
                    Ok(Err(why)) => loaded.damaged.push(set_aside(&path, why)),
                    Err(error) => loaded.damaged.push(Damage::unreadable(&path, &error)),
                },
                _ => {}
            }
        }
        Ok(loaded)
    }

    /// Writes an object. It is on disk when this returns.
    ///
    /// # Errors
    /// If the file cannot be written, for example because the disk is full. The previous version stays.
    pub fn save(&self, key: &str, value: &[u8]) -> io::Result<()> {
        // The objects may include Secrets.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path(key);
        let partial = path.with_extension("tmp");
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
            file.write_all(value)?;
            file.write_all(format!("\n{}\n", checksum(value)).as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            self.sync()
        };
        write().inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    /// Removes an object. It is gone from the disk when this returns.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync(),
        }
    }

    /// The file of an object: its key in readable form, and a hash of it.
    pub fn path(&self, key: &str) -> PathBuf {
        let readable: String = key
            .trim_start_matches("/registry/")
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' })
            .take(READABLE_BYTES)
            .collect();
        let hash = hex::encode(&Sha256::digest(key)[..HASH_BYTES]);
        self.directory.join(format!("{readable}-{hash}.{EXTENSION}"))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Renames a file that cannot be used.
pub fn set_aside(path: &Path, why: String) -> Damage {
    let aside = path.with_extension(format!("{EXTENSION}.{DAMAGED}"));
    match fs::rename(path, &aside) {
        Ok(()) => Damage { path: aside, why },
        Err(error) => Damage { path: path.to_owned(), why: format!("{why}; it cannot be renamed: {error}") },
    }
}

/// The value of a file without the checksum.
fn checked(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let body = bytes.strip_suffix(b"\n").and_then(|rest| rest.iter().rposition(|byte| *byte == b'\n'));
    let Some(end) = body else { return Err("it is incomplete".to_owned()) };
    let found = String::from_utf8_lossy(&bytes[end + 1..bytes.len() - 1]).into_owned();
    bytes.truncate(end);
    if checksum(&bytes) == found { Ok(bytes) } else { Err("its checksum is wrong".to_owned()) }
}

fn checksum(value: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(value)))
}

#[cfg(test)]
mod tests {
    //! Tests of intact and damaged files.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const KEY: &str = "/registry/pods/default/web";

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_saved_object_is_loaded_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path());
        assert!(files.load().unwrap().objects.is_empty());
        files.save(KEY, b"{\"a\":\n1}").unwrap();
        files.save(KEY, b"{\"a\":\n2}").unwrap();
        files.save("/registry/pods/default/other", b"{}").unwrap();
        let loaded: Vec<_> = files.load().unwrap().objects.into_iter().map(|(_, value)| value).collect();
        assert_eq!(loaded, [b"{}".to_vec(), b"{\"a\":\n2}".to_vec()]);
        files.remove(KEY).unwrap();
        files.remove(KEY).unwrap();
        assert_eq!(files.load().unwrap().objects.len(), 1);
    }

    #[test]
    fn a_damaged_file_is_kept_aside_and_loses_no_other() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path());
        files.save(KEY, b"{\"a\":1}").unwrap();
        files.save("/registry/pods/default/other", b"{}").unwrap();
        let mut bytes = fs::read(files.path(KEY)).unwrap();
        bytes[5] = b'2';
        fs::write(files.path(KEY), &bytes).unwrap();
        fs::write(files.directory.join("half.json"), "{\"a\"").unwrap();
        fs::write(files.directory.join("interrupted.tmp"), "{").unwrap();
        let loaded = files.load().unwrap();
        let whys: Vec<&str> = loaded.damaged.iter().map(|damage| damage.why.as_str()).collect();
        assert_eq!((loaded.objects.len(), &*whys), (1, &["it is incomplete", "its checksum is wrong"][..]));
        // A new version of the object does not overwrite the damaged one.
        files.save(KEY, b"{}").unwrap();
        let kept = names(&files.directory);
        assert_eq!(kept.iter().filter(|name| name.ends_with(".damaged")).count(), 2, "{kept:?}");
        assert!(!kept.contains(&"interrupted.tmp".to_owned()));
        assert_eq!(files.load().unwrap().objects.len(), 2);
    }

    #[test]
    fn long_names_fit_into_a_file_name() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path());
        let long = |end: &str| format!("/registry/configmaps/{}/{}{end}", "n".repeat(63), "x".repeat(252));
        files.save(&long("a"), b"1").unwrap();
        files.save(&long("b"), b"2").unwrap();
        assert_eq!(files.load().unwrap().objects.len(), 2);
    }
}
