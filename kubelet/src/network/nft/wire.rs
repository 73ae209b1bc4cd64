//! Netlink as bytes: messages and attributes, to the kernel and from it. Pure.
//!
//! Headers are in the machine's own byte order; numbers in attributes of nf_tables are big-endian (linux/netfilter/nf_tables.h).

/// Flags of a message (linux/netlink.h).
pub const REQUEST: u16 = 0x1;
/// The kernel says when it is done with the message.
pub const ACK: u16 = 0x4;
/// All there are; in an answer of several messages, [`INTERRUPTED`] has another meaning of its own.
pub const DUMP: u16 = 0x300;
/// Made if it is not there.
pub const CREATE: u16 = 0x400;
/// At the end of those that are there.
pub const APPEND: u16 = 0x800;
/// In an answer: what was listed changed meanwhile.
pub const INTERRUPTED: u16 = 0x10;

/// The kernel's answer to one message: an errno, or none.
pub const ERROR: u16 = 2;
/// The end of a list.
pub const DONE: u16 = 3;
/// Around messages that are carried out together or not at all (linux/netfilter/nfnetlink.h).
pub const BATCH_BEGIN: u16 = 0x10;
/// The end of them.
pub const BATCH_END: u16 = 0x11;

/// The subsystem of nf_tables, the upper byte of its messages.
pub const NF_TABLES: u16 = 10;

const HEADER: usize = 16;
/// Family, version and a number, which every message of netfilter begins with.
const NETFILTER_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
const NESTED: u16 = 0x8000;
/// The kind of an attribute without its flags.
const KIND: u16 = 0x3fff;

/// Attributes one after the other, each with its length, its kind and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, of these bytes, which are fewer than 65532.
    #[must_use]
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = ATTRIBUTE_HEADER + value.len();
        debug_assert!(length <= usize::from(u16::MAX), "an attribute is at most 64 KiB long");
        self.0.extend((length as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
        self
    }

    /// With a number.
    #[must_use]
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// With a number of 64 bits.
    #[must_use]
    pub fn long(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// With a text, which ends with a zero.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// With one that consists of others.
    #[must_use]
    pub fn nested(self, kind: u16, value: &Attributes) -> Self {
        self.nested_bytes(kind, &value.0)
    }

    /// With one that consists of others, as it was received.
    #[must_use]
    pub fn nested_bytes(self, kind: u16, value: &[u8]) -> Self {
        self.bytes(kind | NESTED, value)
    }

    /// As they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The attributes that bytes consist of, by kind; a broken one ends them.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(array(bytes, 0)?));
        let kind = u16::from_ne_bytes(array(bytes, 2)?) & KIND;
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A number among attributes.
pub fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(array(find(bytes, kind)?, 0)?))
}

/// A number of 64 bits among attributes.
pub fn long(bytes: &[u8], kind: u16) -> Option<u64> {
    Some(u64::from_be_bytes(array(find(bytes, kind)?, 0)?))
}

/// A text among attributes.
pub fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let value = find(bytes, kind)?;
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A message to netfilter, except for its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it asks for, with the subsystem in the upper byte.
    pub kind: u16,
    /// Flags beside [`REQUEST`].
    pub flags: u16,
    /// The family, `NFPROTO_*`.
    pub family: u8,
    /// For batches, their subsystem.
    pub subsystem: u16,
    /// What it is about.
    pub attributes: Attributes,
}

impl Message {
    /// A message to nf_tables.
    pub fn new(kind: u8, flags: u16, family: u8, attributes: Attributes) -> Self {
        Self { kind: (NF_TABLES << 8) | u16::from(kind), flags, family, subsystem: 0, attributes }
    }

    /// Appends it to what is sent.
    pub fn write(&self, sequence: u32, into: &mut Vec<u8>) {
        let length = HEADER + NETFILTER_HEADER + self.attributes.0.len();
        into.extend((length as u32).to_ne_bytes());
        into.extend(self.kind.to_ne_bytes());
        into.extend((REQUEST | self.flags).to_ne_bytes());
        into.extend(sequence.to_ne_bytes());
        // The kernel fills in the port.
        into.extend(0u32.to_ne_bytes());
        into.extend([self.family, 0]);
        into.extend(self.subsystem.to_be_bytes());
        into.extend(&self.attributes.0);
    }
}

/// Messages that are carried out together or not at all, with the first number of theirs; the next has the number one higher.
///
/// The kernel refuses them all when the rules are not those of `generation` any more. It answers those it refuses, and the
/// last one if all went well.
pub fn batch(messages: &[Message], generation: u32, first: u32) -> Vec<u8> {
    /// `NFNL_BATCH_GENID`.
    const GENERATION: u16 = 1;
    let fence = |kind, attributes| Message { kind, flags: 0, family: 0, subsystem: NF_TABLES, attributes };
    let mut bytes = Vec::new();
    fence(BATCH_BEGIN, Attributes::new().number(GENERATION, generation)).write(first, &mut bytes);
    let mut sequence = first;
    for (number, message) in messages.iter().enumerate() {
        sequence = sequence.wrapping_add(1);
        let ack = if number + 1 == messages.len() { ACK } else { 0 };
        Message { flags: message.flags | ack, ..message.clone() }.write(sequence, &mut bytes);
    }
    fence(BATCH_END, Attributes::new()).write(sequence.wrapping_add(1), &mut bytes);
    bytes
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// What it is, with the subsystem in the upper byte.
    pub kind: u16,
    /// Its flags.
    pub flags: u16,
    /// The number of the message that it answers.
    pub sequence: u32,
    body: &'a [u8],
}

impl<'a> Received<'a> {
    /// The errno that an answer or the end of a list tells, 0 if there is none.
    pub fn errno(&self) -> i32 {
        match self.kind {
            ERROR | DONE => array(self.body, 0).map_or(0, |bytes| i32::from_ne_bytes(bytes).saturating_neg()),
            _ => 0,
        }
    }

    /// The family, `NFPROTO_*`.
    pub fn family(&self) -> u8 {
        self.body.first().copied().unwrap_or_default()
    }

    /// What it tells.
    pub fn attributes(&self) -> &'a [u8] {
        self.body.get(NETFILTER_HEADER..).unwrap_or_default()
    }
}

/// The messages that were received together; a broken one ends them.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(array(bytes, 0)?)).ok()?;
        let body = bytes.get(HEADER..length)?;
        let kind = u16::from_ne_bytes(array(bytes, 4)?);
        let flags = u16::from_ne_bytes(array(bytes, 6)?);
        let sequence = u32::from_ne_bytes(array(bytes, 8)?);
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Received { kind, flags, sequence, body })
    })
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
