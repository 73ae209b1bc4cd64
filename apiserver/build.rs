//! Gathers what the official API says of every type and field from the sources of k8s-openapi, compressed room by room.
//!
//! No document is kept in this repository, and nothing of the crate is compiled for it: its sources are generated and
//! so of one form, and cargo knows where they lie.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The version of Kubernetes whose types are described, as a folder of k8s-openapi.
const VERSION: &str = "v1_37";
/// What the documents are made from besides the descriptions: their hashes change with these.
const MAKERS: [&str; 2] = ["src/openapi", "../api/src/schema/all.txt"];

/// Lines of a room: a type and what it is, or an indented field and what it is, as escaped in the sources.
type Rooms = BTreeMap<String, String>;

fn main() -> Result<(), Box<dyn Error>> {
    let sources = sources()?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", sources.display());
    for maker in MAKERS {
        println!("cargo::rerun-if-changed={maker}");
    }
    let mut rooms = Rooms::new();
    for file in files(&sources)? {
        describe(&fs::read_to_string(file)?, &mut rooms);
    }
    write(&rooms)
}

/// One file of all rooms, and where in it each of them lies.
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
    for maker in MAKERS {
        for file in files(Path::new(maker))? {
            hash.add(&fs::read(file)?);
        }
    }
    fs::write(out.join("descriptions"), &all)?;
    fs::write(out.join("descriptions.rs"), index)?;
    fs::write(out.join("edition.rs"), format!("0x{:016x}", hash.0))?;
    Ok(())
}

/// The sources of k8s-openapi, in whichever registry or folder cargo keeps them.
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    // First without the network, which a build that has all it needs does not have; a machine that has fetched only
    // what it builds needs the second.
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
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed, try `cargo fetch`: {said}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Every file below a folder, in order; a file itself.
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

/// Adds what a source file says of the type it defines.
fn describe(text: &str, rooms: &mut Rooms) {
    let Some(definition) = between(text, "// Generated from definition io.k8s.", "\n") else { return };
    let parts: Vec<&str> = definition.split('.').collect();
    let Some((name, room)) = parts[parts.len().saturating_sub(3)..].split_last() else { return };
    // Older and younger versions than those that are served.
    if room.last().is_some_and(|version| version.contains("alpha") || version.contains("beta")) {
        return;
    }
    let Some((_, schema)) = text.split_once("json_schema!({\n") else { return };
    let lines = rooms.entry(room.join(".")).or_default();
    let mut field = None;
    for line in schema.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        match depth {
            12 => {
                if let Some(said) = between(line, "\"description\": \"", "\",") {
                    lines.push_str(&format!("{name}\t{said}\n"));
                }
            }
            16 => field = between(line, "\"", "\": ").filter(|_| line.ends_with(['{', '('])),
            20 => {
                let said = between(line, "\"description\": \"", "\",")
                    .or_else(|| between(line, ".insert(\"description\".into(), \"", "\".into());"));
                if let (Some(field), Some(said)) = (field, said) {
                    lines.push_str(&format!(" {field}\t{said}\n"));
                }
            }
            _ => {}
        }
    }
}

/// What stands between `start` and the last `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    if end == "\n" { rest.lines().next() } else { rest.rsplit_once(end).map(|(inside, _)| inside) }
}

/// FNV-1a: the same on every machine and with every compiler.
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
