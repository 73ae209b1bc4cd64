//! Percent-encoding of path segments and query values (RFC 3986).

/// Encodes every byte except unreserved characters.
pub fn percent_encoded(text: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape = |byte: u8| {
        if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escape).collect()
}

/// Decodes percent escapes. Invalid escapes stay unchanged, and bytes that are not UTF-8 are replaced.
pub fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.split_at_checked(2).filter(|_| *first == b'%');
        let byte = hex.and_then(|(hex, tail)| Some((std::str::from_utf8(hex).ok()?, tail)));
        match byte.and_then(|(hex, tail)| Some((u8::from_str_radix(hex, 16).ok()?, tail))) {
            Some((byte, tail)) => {
                out.push(byte);
                rest = tail;
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    //! Tests of characters that are kept, encoded and decoded.
    use super::{percent_decoded, percent_encoded};

    #[test]
    fn escapes_are_decoded_and_invalid_ones_stay() {
        assert_eq!(percent_decoded("a%3Db%2fc%20%C3%A4"), "a=b/c ä");
        assert_eq!(percent_decoded("100% %zz %4"), "100% %zz %4");
    }

    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(percent_encoded("a-Z_0.9~"), "a-Z_0.9~");
        assert_eq!(percent_encoded("a=b/c +ä"), "a%3Db%2Fc%20%2B%C3%A4");
    }
}
