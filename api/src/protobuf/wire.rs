//! Reads the protobuf wire format.

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of a protobuf field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    /// An integer or a boolean.
    Varint(u64),
    /// The wire type of `fixed64`, `sfixed64` and `double`.
    Fixed64(u64),
    /// A string, bytes, a message, or a packed list.
    Bytes(&'a [u8]),
    /// A 4-byte number, which Kubernetes does not use.
    Fixed32,
}

/// The error for invalid bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireError {
    /// The bytes end within a value.
    Truncated,
    /// A varint is too long, or a tag is invalid.
    Malformed,
}

impl Wire<'_> {
    /// The type for error messages.
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
    /// Creates a reader for the bytes of a message.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field with its number, or `None` at the end. Groups, which Kubernetes never used, are skipped.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, WireError> {
        let mut groups = 0_usize;
        while !self.rest.is_empty() {
            let tag = self.varint()?;
            let number =
                u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(WireError::Malformed)?;
            let value = match tag & 7 {
                0 => Wire::Varint(self.varint()?),
                1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
                2 => Wire::Bytes(self.bytes()?),
                3 => {
                    groups += 1;
                    continue;
                }
                4 => {
                    groups = groups.checked_sub(1).ok_or(WireError::Malformed)?;
                    continue;
                }
                5 => {
                    self.array::<4>()?;
                    Wire::Fixed32
                }
                _ => return Err(WireError::Malformed),
            };
            if groups == 0 {
                return Ok(Some((number, value)));
            }
        }
        if groups > 0 { Err(WireError::Truncated) } else { Ok(None) }
    }

    /// The next element of a packed list.
    pub(super) fn packed(&mut self, are_doubles: bool) -> Result<Option<Wire<'a>>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(if are_doubles {
            Wire::Fixed64(u64::from_le_bytes(self.array()?))
        } else {
            Wire::Varint(self.varint()?)
        }))
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for (position, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds only one bit.
            if position == 9 && bits > 1 {
                return Err(WireError::Malformed);
            }
            value |= bits << (7 * position);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
            if position == 9 {
                return Err(WireError::Malformed);
            }
        }
        Err(WireError::Truncated)
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }
}
