//! Bytes of a reply as text.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Returns the text of a body. `charset` is the encoding that its sender names, which counts only where the
/// bytes do not tell themselves: JSON is in UTF-8, whatever a framework adds to its type. Bytes without a
/// meaning become U+FFFD.
pub(super) fn decoded<'b>(body: &'b [u8], charset: Option<&str>) -> Cow<'b, str> {
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    let told = || match body {
        // JSON begins with an ASCII character.
        [0, 1..=0x7f, ..] => Some(UTF_16BE),
        [1..=0x7f, 0, ..] => Some(UTF_16LE),
        _ if std::str::from_utf8(body).is_ok() => Some(UTF_8),
        _ => None,
    };
    let named = || charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    marked.or_else(told).or_else(named).unwrap_or(UTF_8).decode(body).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_that_of_the_bytes_and_else_the_one_that_the_sender_names() {
        let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            text.encode_utf16().flat_map(order).collect()
        };
        let table = [
            ("{ü}".as_bytes().to_vec(), Some("iso-8859-1"), "{ü}"),
            ("\u{feff}{ü}".as_bytes().to_vec(), None, "{ü}"),
            (utf16("{ü}", u16::to_le_bytes), None, "{ü}"),
            (utf16("{ü}", u16::to_be_bytes), None, "{ü}"),
            (utf16("\u{feff}{ü}", u16::to_be_bytes), Some("utf-8"), "{ü}"),
            (b"{\xfc}".to_vec(), Some("ISO-8859-1"), "{ü}"),
            (b"{\xfc}".to_vec(), None, "{\u{fffd}}"),
            (b"{\xf0\x9f\x98}".to_vec(), Some("no encoding"), "{\u{fffd}}"),
            (Vec::new(), None, ""),
        ];
        for (body, charset, expected) in table {
            assert_eq!(decoded(&body, charset), expected, "{body:?} {charset:?}");
        }
    }
}
