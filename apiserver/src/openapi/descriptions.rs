//! What the official API says of types and fields: compressed in the program, a room of it read while a document is made.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::read::DeflateDecoder;
use serde_json::Value;

/// Every room, compressed one by one.
static ALL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));
/// The name of a room such as `core.v1`, and where it begins and ends.
static ROOMS: &[(&str, usize, usize)] = include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));
/// Room for a room: the largest has about half a megabyte.
const MAX_ROOM_BYTES: u64 = 8 << 20;

/// Descriptions of the rooms that were asked for.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    rooms: HashMap<String, Room>,
}

/// Descriptions of types and of their fields.
#[derive(Debug, Default)]
struct Room {
    types: HashMap<String, String>,
    fields: HashMap<String, HashMap<String, String>>,
}

impl Descriptions {
    /// What a type is, such as `core.v1.Pod`; empty when nothing is known.
    pub(super) fn of(&mut self, name: &str) -> &str {
        let (room, name) = self.room(name);
        room.types.get(name).map_or("", String::as_str)
    }

    /// What a field of a type is; empty when nothing is known.
    pub(super) fn of_field(&mut self, name: &str, field: &str) -> &str {
        let (room, name) = self.room(name);
        room.fields.get(name).and_then(|fields| fields.get(field)).map_or("", String::as_str)
    }

    fn room<'a>(&mut self, name: &'a str) -> (&Room, &'a str) {
        let (room, name) = name.rsplit_once('.').unwrap_or(("", name));
        (self.rooms.entry(room.to_owned()).or_insert_with(|| Room::read(room)), name)
    }
}

impl Room {
    /// Unpacks a room; one that is not there says nothing.
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
        for (name, said) in lines.lines().filter_map(|line| line.split_once('\t')) {
            match name.strip_prefix(' ') {
                None => {
                    of = name.to_owned();
                    room.types.insert(of.clone(), unescape(said));
                }
                Some(field) => {
                    let fields = room.fields.entry(of.clone()).or_default();
                    fields.insert(field.to_owned(), unescape(said));
                }
            }
        }
        room
    }
}

/// Text as it stands in Rust sources is escaped as in JSON, as far as the descriptions go.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    match serde_json::from_str(&format!("\"{text}\"")) {
        Ok(Value::String(text)) => text,
        _ => text.to_owned(),
    }
}
