//! Percent-encoding of URLs (RFC 3986, section 2.1).

/// Decodes percent-encoding. Returns `None` if a `%` is not followed by two hexadecimal digits.
///
/// The bytes need not be UTF-8. Callers that compare names, such as routing and authorization, must reject other bytes.
/// CEL replaces them like the stock API server.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    Some(bytes)
}

/// Encodes a path like `URL.EscapedPath` of Go, which keeps `%` and the separators of a path.
pub fn encode_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*%[]".contains(&byte);
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    //! Tests of valid and invalid encodings.
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decode_rejects_incomplete_and_non_hexadecimal_digits() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("a%2Fb+c", Some(b"a/b+c")),
            ("%c3%BC", Some("ü".as_bytes())),
            ("%ff", Some(b"\xff")),
            ("%", None),
            ("a%2", None),
            ("%zz", None),
            ("%+1", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn decode_reverses_encode_path(path in "[^%]{0,40}") {
            prop_assert_eq!(decode(&encode_path(&path)), Some(path.into_bytes()));
        }
    }
}
