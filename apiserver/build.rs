//! Extracts the descriptions of all API types and fields from the sources of k8s-openapi and compresses them, one
//! section per API group version.
//!
//! The repository contains no OpenAPI document. The build does not compile k8s-openapi for this; it parses its
//! generated sources, which have a uniform layout.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../api/src/kubernetes_version.rs"]
#[expect(dead_code, reason = "the build needs two of the constants")]
mod kubernetes_version;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use kubernetes_version::{MAJOR, MINOR};

/// Module of k8s-openapi that provides the descriptions.
const VERSION: &str = "v1_37";
/// Inputs of the OpenAPI documents other than the descriptions. A change to one of these files changes the hashes
/// of the documents.
const GENERATOR_SOURCES: [&str; 2] = ["src/openapi", "../api/src/schema/all.txt"];

/// The lines of each section. A line is a type with its description, or an indented field with its description,
/// escaped as in the sources.
type Rooms = BTreeMap<String, String>;

fn main() -> Result<(), Box<dyn Error>> {
    let sources = sources()?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../api/src/kubernetes_version.rs");
    println!("cargo::rerun-if-changed={}", sources.display());
    for source in GENERATOR_SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    built();
    let mut rooms = Rooms::new();
    for file in files(&sources)? {
        describe(&fs::read_to_string(file)?, &mut rooms);
    }
    // The module of the served version decides which fields are required, which differs between versions.
    let served = sources.with_file_name(format!("v{MAJOR}_{MINOR}"));
    for file in files(&served)? {
        require(&fs::read_to_string(file)?, &mut rooms);
    }
    write(&rooms)
}

/// Sets the build information that `/version` returns: commit, commit date, tree state and compiler. Only
/// release builds run git, so that a commit does not trigger a rebuild during development.
/// `CORACLE_GIT_COMMIT` and `SOURCE_DATE_EPOCH` override git. Without git and these variables the values are
/// placeholders.
fn built() {
    println!("cargo::rerun-if-env-changed=CORACLE_GIT_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let git = |arguments: &[&str]| is_release.then(|| output("git", arguments)).flatten();
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let commit = given("CORACLE_GIT_COMMIT").or_else(|| git(&["rev-parse", "HEAD"]));
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    let tree = match (&commit, changes.as_deref()) {
        (None, _) => "archive",
        (Some(_), None | Some("")) => "clean",
        (Some(_), Some(_)) => "dirty",
    };
    const FORMAT: &str = "%Y-%m-%dT%H:%M:%SZ";
    let date = match given("SOURCE_DATE_EPOCH") {
        Some(seconds) => output("date", &["-u", &format!("-d@{seconds}"), &format!("+{FORMAT}")]),
        None => git(&["log", "-1", "--format=%cd", &format!("--date=format-local:{FORMAT}")]),
    };
    let rustc = env::var("RUSTC").ok().and_then(|rustc| output(&rustc, &["--version"])).unwrap_or_default();
    let rustc = rustc.split(' ').take(2).collect::<Vec<_>>().join(" ");
    for (name, value) in [
        ("CORACLE_GIT_COMMIT", commit.unwrap_or_else(|| "0".repeat(40))),
        ("CORACLE_GIT_TREE_STATE", tree.to_owned()),
        ("CORACLE_BUILD_DATE", date.unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())),
        ("CORACLE_RUSTC", if rustc.is_empty() { "rustc".to_owned() } else { rustc }),
    ] {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// Standard output of a program, trimmed, or `None` if it cannot be run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let run = Command::new(program).args(arguments).env("TZ", "UTC").output().ok()?;
    let text = String::from_utf8(run.stdout).ok()?;
    run.status.success().then(|| text.trim().to_owned())
}

/// Writes all sections to one file, together with the index of their offsets.
fn write(rooms: &Rooms) -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let (mut all, mut index) = (Vec::new(), String::from("&[\n"));
    for (room, lines) in rooms {
        let start = all.len();
        let mut encoder = DeflateEncoder::new(all, Compression::best());
        encoder.write_all(lines.as_bytes())?;
        all = encoder.finish()?;
        writeln!(index, "    ({room:?}, {start}, {}),", all.len())?;
    }
    index.push(']');
    let mut hash = Fnv::default();
    hash.add(&all);
    for source in GENERATOR_SOURCES {
        for file in files(Path::new(source))? {
            hash.add(&fs::read(file)?);
        }
    }
    fs::write(out.join("descriptions"), &all)?;
    fs::write(out.join("descriptions.rs"), index)?;
    fs::write(out.join("edition.rs"), format!("0x{:016x}", hash.0))?;
    Ok(())
}

/// Source directory of k8s-openapi, which cargo has unpacked.
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    // Tries offline first, because a build sandbox may have no network. Without a complete cache the first
    // call fails, and the second one may fetch.
    let metadata = metadata(&["--offline"]).or_else(|_| metadata(&[]))?;
    let found = metadata.split("\"manifest_path\":\"").skip(1).find_map(|rest| {
        let folder = Path::new(rest.split('"').next()?).parent()?.join("src").join(VERSION);
        folder.join("api/core/v1/pod.rs").is_file().then_some(folder)
    });
    let missing =
        "cargo knows no k8s-openapi with the folder that build.rs names: adapt VERSION to its features";
    Ok(found.ok_or(missing)?)
}

fn metadata(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = env::var("TARGET")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--filter-platform", &target])
        .args(arguments)
        .output()?;
    if !output.status.success() {
        let description = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed, try `cargo fetch`: {description}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns every file below a directory, sorted, or the path itself if it is a file.
fn files(path: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        found.extend(files(&entry)?);
    }
    Ok(found)
}

/// Returns section, name and schema of the type that a source file defines.
fn defined(text: &str) -> Option<(String, &str, &str)> {
    let definition = between(text, "// Generated from definition io.k8s.", "\n")?;
    let start = definition.rmatch_indices('.').nth(2).map_or(0, |(at, _)| at + 1);
    let (room, name) = definition[start..].rsplit_once('.')?;
    // Skips alpha and beta versions, which the server does not serve.
    let version = room.rsplit('.').next().unwrap_or_default();
    if version.contains("alpha") || version.contains("beta") {
        return None;
    }
    let (_, schema) = text.split_once("json_schema!({\n")?;
    Some((room.to_owned(), name, schema))
}

/// Adds the required fields of the type in a source file, as a line that starts with `!`.
fn require(text: &str, rooms: &mut Rooms) {
    let Some((room, name, schema)) = defined(text) else { return };
    let list =
        schema.split_once("\n            \"required\": [\n").and_then(|(_, rest)| rest.split_once(']'));
    let fields = list.map_or("", |(list, _)| list).split(',');
    let fields: Vec<&str> = fields.map(|field| field.trim().trim_matches('"')).collect();
    // The crate marks the metadata of every kind as required; the API requires it only for core/v1 Event.
    let is_required =
        |field: &&str| !field.is_empty() && (*field != "metadata" || (&*room, name) == ("core.v1", "Event"));
    let fields: Vec<&str> = fields.into_iter().filter(is_required).collect();
    rooms.entry(room.clone()).or_default().push_str(&format!("!{name}\t{}\n", fields.join(",")));
}

/// Adds the descriptions of the type in a source file and of its fields.
fn describe(text: &str, rooms: &mut Rooms) {
    let Some((room, name, schema)) = defined(text) else { return };
    let lines = rooms.entry(room).or_default();
    let mut field = None;
    for line in schema.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        match depth {
            12 => {
                if let Some(description) = between(line, "\"description\": \"", "\",") {
                    lines.push_str(&format!("{name}\t{description}\n"));
                }
            }
            16 => field = between(line, "\"", "\": ").filter(|_| line.ends_with(['{', '('])),
            20 => {
                let description = between(line, "\"description\": \"", "\",")
                    .or_else(|| between(line, ".insert(\"description\".into(), \"", "\".into());"));
                if let (Some(field), Some(description)) = (field, description) {
                    lines.push_str(&format!(" {field}\t{description}\n"));
                }
            }
            _ => {}
        }
    }
}

/// Returns the text between `start` and the last `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    if end == "\n" { rest.lines().next() } else { rest.rsplit_once(end).map(|(inside, _)| inside) }
}

/// FNV-1a hash, which is the same on every machine and with every compiler.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
