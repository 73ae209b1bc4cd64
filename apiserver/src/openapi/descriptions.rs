//! Official descriptions of types and fields: embedded in the binary, one compressed section per API group
//! version.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::read::DeflateDecoder;
use serde_json::Value;

/// All sections, compressed individually.
static ALL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));
/// The name of each section (`core.v1`), with its start and end offset.
static ROOMS: &[(&str, usize, usize)] = include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));
/// Maximum uncompressed size of a section; the largest has about 0.5 MB.
const MAX_ROOM_BYTES: u64 = 8 << 20;

/// Sections that have been read.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    rooms: HashMap<String, Room>,
}

/// Descriptions of one section.
#[derive(Debug, Default)]
struct Room {
    types: HashMap<String, String>,
    fields: HashMap<String, HashMap<String, String>>,
    /// Required fields by type.
    required: HashMap<String, Vec<String>>,
}

impl Descriptions {
    /// Description of a type such as `core.v1.Pod`; empty if unknown.
    pub(super) fn of(&mut self, name: &str) -> &str {
        let (room, name) = self.room(name);
        room.types.get(name).map_or("", String::as_str)
    }

    /// Description of a field; empty if unknown.
    pub(super) fn of_field(&mut self, name: &str, field: &str) -> &str {
        let (room, name) = self.room(name);
        room.fields.get(name).and_then(|fields| fields.get(field)).map_or("", String::as_str)
    }

    /// Required fields of a type in the served version, or `None` for newer types.
    pub(super) fn required(&mut self, name: &str) -> Option<&[String]> {
        let (room, name) = self.room(name);
        room.required.get(name).map(Vec::as_slice)
    }

    fn room<'a>(&mut self, name: &'a str) -> (&Room, &'a str) {
        let (room, name) = name.rsplit_once('.').unwrap_or(("", name));
        (self.rooms.entry(room.to_owned()).or_insert_with(|| Room::read(room)), name)
    }
}

impl Room {
    /// Decompresses a section. An unknown section is empty.
    fn read(name: &str) -> Self {
        let mut room = Self::default();
        let found =
            ROOMS.iter().find(|(of, ..)| *of == name).and_then(|(_, start, end)| ALL.get(*start..*end));
        let Some(packed) = found else { return room };
        let mut lines = String::new();
        if DeflateDecoder::new(packed).take(MAX_ROOM_BYTES).read_to_string(&mut lines).is_err() {
            return room;
        }
        let mut of = String::new();
        let names = |list: &str| -> Vec<String> {
            list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        for (name, description) in lines.lines().filter_map(|line| line.split_once('\t')) {
            if let Some(of) = name.strip_prefix('!') {
                room.required.insert(of.to_owned(), names(description));
                continue;
            }
            match name.strip_prefix(' ') {
                None => {
                    of = name.to_owned();
                    room.types.insert(of.clone(), unescape(description));
                }
                Some(field) => {
                    let fields = room.fields.entry(of.clone()).or_default();
                    fields.insert(field.to_owned(), unescape(description));
                }
            }
        }
        room
    }
}

/// Decodes the escapes of a Rust string. They are also valid in JSON.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    match serde_json::from_str(&format!("\"{text}\"")) {
        Ok(Value::String(text)) => text,
        _ => text.to_owned(),
    }
}
