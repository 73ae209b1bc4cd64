//! Encodes and decodes netlink messages and attributes. Pure.
//!
//! Headers are in host byte order. Numbers in attributes of nf_tables are big-endian (linux/netfilter/nf_tables.h).

/// The flag `NLM_F_REQUEST` (linux/netlink.h, as the other flags).
pub const REQUEST: u16 = 0x1;
/// The flag `NLM_F_ACK`: the kernel acknowledges the message.
pub const ACK: u16 = 0x4;
/// The flags `NLM_F_DUMP`: request all objects. In answers, one of these bits means [`INTERRUPTED`].
pub const DUMP: u16 = 0x300;
/// The flag `NLM_F_CREATE`: create a missing object.
pub const CREATE: u16 = 0x400;
/// The flag `NLM_F_APPEND`: append to the list.
pub const APPEND: u16 = 0x800;
/// The flag `NLM_F_DUMP_INTR` in answers: the objects changed during the dump.
pub const INTERRUPTED: u16 = 0x10;

/// The type `NLMSG_ERROR`: the answer to one message, an errno or 0.
pub const ERROR: u16 = 2;
/// The type `NLMSG_DONE`: the end of a dump.
pub const DONE: u16 = 3;
/// The type `NFNL_MSG_BATCH_BEGIN`: the start of an atomic batch (linux/netfilter/nfnetlink.h).
pub const BATCH_BEGIN: u16 = 0x10;
/// The type `NFNL_MSG_BATCH_END`: the end of an atomic batch.
pub const BATCH_END: u16 = 0x11;

/// The nf_tables subsystem, which is the upper byte of its message types.
pub const NF_TABLES: u16 = 10;

const HEADER: usize = 16;
/// Length of the header of a netfilter message: family, version and resource ID.
const NETFILTER_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
const NESTED: u16 = 0x8000;
/// Mask for the type of an attribute, without its flags.
const KIND: u16 = 0x3fff;

/// A sequence of attributes, each with length, type and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Creates an empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute with a value of fewer than 65532 bytes.
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

    /// Adds a 32-bit number.
    #[must_use]
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a 64-bit number.
    #[must_use]
    pub fn long(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a zero-terminated text.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds nested attributes.
    #[must_use]
    pub fn nested(self, kind: u16, value: &Attributes) -> Self {
        self.nested_bytes(kind, &value.0)
    }

    /// Adds nested attributes in the form in which they were received.
    #[must_use]
    pub fn nested_bytes(self, kind: u16, value: &[u8]) -> Self {
        self.bytes(kind | NESTED, value)
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Decodes attributes up to the first malformed one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(array(bytes, 0)?));
        let kind = u16::from_ne_bytes(array(bytes, 2)?) & KIND;
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Reads a 32-bit number from attributes.
pub fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(array(find(bytes, kind)?, 0)?))
}

/// Reads a 64-bit number from attributes.
pub fn long(bytes: &[u8], kind: u16) -> Option<u64> {
    Some(u64::from_be_bytes(array(find(bytes, kind)?, 0)?))
}

/// Reads a text from attributes.
pub fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let value = find(bytes, kind)?;
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A netfilter message without its sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message type, with the subsystem in the upper byte.
    pub kind: u16,
    /// Flags in addition to [`REQUEST`].
    pub flags: u16,
    /// The family, `NFPROTO_*`.
    pub family: u8,
    /// The subsystem of a batch message.
    pub subsystem: u16,
    pub attributes: Attributes,
}

impl Message {
    /// Creates a message of nf_tables.
    pub fn new(kind: u8, flags: u16, family: u8, attributes: Attributes) -> Self {
        Self { kind: (NF_TABLES << 8) | u16::from(kind), flags, family, subsystem: 0, attributes }
    }

    /// Encodes the message.
    pub fn write(&self, sequence: u32, into: &mut Vec<u8>) {
        let length = HEADER + NETFILTER_HEADER + self.attributes.0.len();
        into.extend((length as u32).to_ne_bytes());
        into.extend(self.kind.to_ne_bytes());
        into.extend((REQUEST | self.flags).to_ne_bytes());
        into.extend(sequence.to_ne_bytes());
        // The kernel fills in the port ID.
        into.extend(0u32.to_ne_bytes());
        into.extend([self.family, 0]);
        into.extend(self.subsystem.to_be_bytes());
        into.extend(&self.attributes.0);
    }
}

/// Encodes an atomic batch. Its messages have consecutive sequence numbers from `first` on.
///
/// The kernel rejects the batch if the rules have a generation other than `generation`. It answers each rejected
/// message; on success, it answers the last message.
pub fn batch(messages: &[Message], generation: u32, first: u32) -> Vec<u8> {
    /// The attribute `NFNL_BATCH_GENID`.
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
    /// The message type, with the subsystem in the upper byte.
    pub kind: u16,
    pub flags: u16,
    /// The sequence number of the request.
    pub sequence: u32,
    body: &'a [u8],
}

impl<'a> Received<'a> {
    /// The errno in an answer or at the end of a dump, or 0 if there is none.
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

    pub fn attributes(&self) -> &'a [u8] {
        self.body.get(NETFILTER_HEADER..).unwrap_or_default()
    }
}

/// Decodes received messages up to the first malformed one.
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
