//! The bytes of protobuf: numbered values, one after the other.

/// Reads one message, field by field; never more than the bytes that are there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A value as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    /// A whole number or a bool.
    Varint(u64),
    /// Eight bytes, such as a double.
    Fixed64(u64),
    /// Text, bytes, a message, or numbers without their tags.
    Bytes(&'a [u8]),
    /// Four bytes, which no type of Kubernetes has.
    Fixed32,
}

/// Why the bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// They end in the middle of a value.
    Truncated,
    /// A number is too long, or a tag is none.
    Malformed,
}

impl Wire<'_> {
    /// What it is, for messages.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Varint(_) => "a whole number or a bool",
            Self::Fixed64(_) => "eight bytes",
            Self::Bytes(_) => "text, bytes or a message",
            Self::Fixed32 => "four bytes",
        }
    }
}

impl<'a> Reader<'a> {
    /// Begins to read a message.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field and its number, until there are no more. Groups, which Kubernetes never used, are passed over.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Broken> {
        let mut groups = 0_usize;
        while !self.rest.is_empty() {
            let tag = self.varint()?;
            let number =
                u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Broken::Malformed)?;
            let value = match tag & 7 {
                0 => Wire::Varint(self.varint()?),
                1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => Wire::Bytes(self.bytes()?),
                3 => {
                    groups += 1;
                    continue;
                }
                4 => {
                    groups = groups.checked_sub(1).ok_or(Broken::Malformed)?;
                    continue;
                }
                5 => {
                    self.array::<4>()?;
                    Wire::Fixed32
                }
                _ => return Err(Broken::Malformed),
            };
            if groups == 0 {
                return Ok(Some((number, value)));
            }
        }
        if groups > 0 { Err(Broken::Truncated) } else { Ok(None) }
    }

    /// The next of the numbers that stand in a list without tags.
    pub(super) fn packed(&mut self, are_doubles: bool) -> Result<Option<Wire<'a>>, Broken> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(if are_doubles {
            Wire::Fixed64(u64::from_le_bytes(self.array()?))
        } else {
            Wire::Varint(self.varint()?)
        }))
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0_u64;
        for (position, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds the last bit.
            if position == 9 && bits > 1 {
                return Err(Broken::Malformed);
            }
            value |= bits << (7 * position);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
            if position == 9 {
                return Err(Broken::Malformed);
            }
        }
        Err(Broken::Truncated)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = usize::try_from(self.varint()?).map_err(|_| Broken::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Broken::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(Broken::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }
}
