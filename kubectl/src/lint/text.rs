//! Text of a file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Maximum size of one file, and of its text in UTF-8, in bytes.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reasons for which a file has no text. The caller names the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The file is missing, or the user may not read it.
    #[error("the file cannot be read")]
    Read(#[source] io::Error),
    /// The file, or its text, is larger than [`MAX_BYTES`].
    #[error("the file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The bytes are in another encoding.
    #[error("the file is not text in {encoding}")]
    Encoding {
        /// Encoding that the first bytes show.
        encoding: &'static str,
    },
}

/// Reads a file, or standard input for `-`.
pub(super) fn read(file: &Path) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    let size = if file.as_os_str() == "-" {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|open| open.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    size.map_err(ReadError::Read)?;
    decode(&bytes, MAX_BYTES)
}

/// Returns bytes in UTF-8 or UTF-16 as text, without byte order marks. Files that were joined have one in
/// front of each. A text of `most` bytes is accepted.
pub(super) fn decode(bytes: &[u8], most: u64) -> Result<String, ReadError> {
    let is_within = |size: usize| u64::try_from(size).is_ok_and(|size| size <= most);
    if !is_within(bytes.len()) {
        return Err(ReadError::TooLarge);
    }
    let (encoding, mark) = Encoding::for_bom(bytes).unwrap_or((unmarked(bytes), 0));
    let body = bytes.get(mark..).unwrap_or_default();
    let text = encoding.decode_without_bom_handling_and_without_replacement(body);
    let text = text.ok_or(ReadError::Encoding { encoding: encoding.name() })?;
    // Two bytes of UTF-16 can become three.
    if !is_within(text.len()) {
        return Err(ReadError::TooLarge);
    }
    Ok(if text.contains("\n\u{feff}") { text.replace("\n\u{feff}", "\n") } else { text.into_owned() })
}

/// Returns the encoding of a text without a mark. A manifest begins with an ASCII character.
fn unmarked(bytes: &[u8]) -> &'static Encoding {
    match bytes {
        [0, 1..=0x7f, ..] => UTF_16BE,
        [1..=0x7f, 0, ..] => UTF_16LE,
        _ => UTF_8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kind: Pod # ü😀\r\n";

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn utf_8_and_utf_16_are_read_with_and_without_a_mark() {
        let marked = format!("\u{feff}{TEXT}");
        for bytes in [
            TEXT.as_bytes().to_vec(),
            marked.clone().into_bytes(),
            utf16(TEXT, u16::to_le_bytes),
            utf16(&marked, u16::to_le_bytes),
            utf16(TEXT, u16::to_be_bytes),
            utf16(&marked, u16::to_be_bytes),
        ] {
            assert_eq!(decode(&bytes, MAX_BYTES).unwrap(), TEXT, "{bytes:?}");
        }
        for empty in [&b""[..], b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"] {
            assert_eq!(decode(empty, MAX_BYTES).unwrap(), "");
        }
        let joined = format!("{marked}---\n{marked}{marked}");
        for bytes in [joined.clone().into_bytes(), utf16(&joined, u16::to_le_bytes)] {
            assert_eq!(decode(&bytes, MAX_BYTES).unwrap(), format!("{TEXT}---\n{TEXT}{TEXT}"));
        }
    }

    #[test]
    fn other_bytes_are_an_error_that_names_the_expected_encoding() {
        for (bytes, expected) in [
            (&b"kind: P\xfcd"[..], "the file is not text in UTF-8"),
            (b"\xff\xfek\0i", "the file is not text in UTF-16LE"),
            (b"\xfe\xff\xd8\x3d", "the file is not text in UTF-16BE"),
            (b"\x1f\x8b\x08\x00", "the file is not text in UTF-8"),
        ] {
            assert_eq!(decode(bytes, MAX_BYTES).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_limit_holds_for_the_bytes_and_for_the_text() {
        assert!(decode(b"a: 1", 4).is_ok());
        assert!(matches!(decode(b"a: 12", 4), Err(ReadError::TooLarge)));
        let three_bytes_each = utf16("\u{feff}€€€", u16::to_le_bytes);
        assert!(decode(&three_bytes_each, 9).is_ok());
        assert!(matches!(decode(&three_bytes_each, 8), Err(ReadError::TooLarge)));
    }
}
