//! Tests of interrupted starts, and of damaged, missing and foreign files.

use proptest::prelude::*;

use super::*;

/// A way to damage a file.
type Damage = fn(Vec<u8>) -> Vec<u8>;

fn begin(directory: &Path) -> Result<(), super::super::Error> {
    Pki::open(directory, now()).and_then(|pki| pki.serving(&some_names(), now()).map(drop))
}

/// Keeps only some of the files.
fn only(directory: &Path, keep: impl Fn(usize) -> bool) {
    for (_, file) in FILES.iter().enumerate().filter(|(number, _)| !keep(*number)) {
        fs::remove_file(directory.join(file)).unwrap();
    }
}

#[test]
fn a_start_that_was_killed_between_any_two_files_is_completed() {
    for made in 0..=FILES.len() {
        let directory = whole();
        only(directory.path(), |number| number < made);
        fs::write(directory.path().join("root.key.tmp"), "half").unwrap();
        fs::write(directory.path().join("serving.pem.tmp"), "half").unwrap();
        let before = contents(directory.path());
        begin(directory.path()).unwrap_or_else(|error| panic!("after {made} files: {error}"));
        let after = contents(directory.path());
        for file in before.iter().filter(|(name, _)| !name.ends_with(".tmp")) {
            assert!(after.contains(file), "after {made} files: {} was changed", file.0);
        }
        assert!(FILES.iter().all(|file| after.iter().any(|(name, _)| name == file)));
    }
}

#[test]
fn missing_pki_files_never_cause_the_loss_of_others() {
    for kept in 0..1_u32 << FILES.len() {
        let directory = whole();
        only(directory.path(), |number| kept & (1 << number) != 0);
        let before = contents(directory.path());
        let begun = begin(directory.path());
        let after = contents(directory.path());
        // The serving certificate depends on the other files and is replaced with them.
        for file in before.iter().filter(|(name, _)| name != "serving.pem") {
            assert!(after.contains(file), "{kept:05b}: {} was changed", file.0);
        }
        if let Err(error) = begun {
            assert_eq!(before, after, "{kept:05b}: a refusal changes nothing");
            let error = error.to_string();
            assert!(FILES.iter().any(|file| error.contains(file)), "{error}");
        }
    }
}

#[test]
fn error_names_a_damaged_file_and_keeps_it() {
    let damage: [(&str, Damage); 4] = [
        ("half of it", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("nothing", |_| Vec::new()),
        ("no text", |_| vec![0xff; 3000]),
        ("one letter", |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] = b'*';
            bytes
        }),
    ];
    for file in FILES {
        for (what, damage) in &damage {
            let directory = whole();
            let path = directory.path().join(file);
            fs::write(&path, damage(fs::read(&path).unwrap())).unwrap();
            let before = contents(directory.path());
            let error = begin(directory.path()).unwrap_err().to_string();
            assert!(
                error.contains(file) && error.contains("nothing was changed: "),
                "{file} {what}: {error}"
            );
            assert_eq!(contents(directory.path()), before, "{file} {what}");
        }
    }
}

#[test]
fn files_of_two_clusters_do_not_mix() {
    let other = whole();
    for file in &FILES[..4] {
        let directory = whole();
        fs::copy(other.path().join(file), directory.path().join(file)).unwrap();
        let before = contents(directory.path());
        let error = begin(directory.path()).unwrap_err().to_string();
        assert!(error.contains("nothing was changed: "), "{file}: {error}");
        assert_eq!(contents(directory.path()), before);
    }
    // The serving certificate of another cluster is replaced.
    let directory = whole();
    fs::copy(other.path().join("serving.pem"), directory.path().join("serving.pem")).unwrap();
    begin(directory.path()).unwrap();
}

#[test]
fn expired_certificates_are_reported() {
    let directory = whole();
    let error = Pki::open(directory.path(), in_days(3651)).unwrap_err().to_string();
    assert!(error.contains("root.crt") && error.contains("expired"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn reader_of_pki_files_never_panics(number in 0..FILES.len(), bytes in any::<Vec<u8>>(), tail in "[ -~\n]{0,60}") {
        let directory = tempfile::tempdir().unwrap();
        let text = [b"-----BEGIN CERTIFICATE-----\n".as_slice(), tail.as_bytes(), &bytes].concat();
        for content in [bytes.as_slice(), &text] {
            fs::write(directory.path().join(FILES[number]), content).unwrap();
            prop_assert!(begin(directory.path()).is_err());
        }
    }
}
