//! Compressed replies. None is asked for, and some servers compress all the same.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// First bytes of gzip, which no JSON begins with.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Returns the body as it was before it was compressed in that content coding, at most `limit` bytes of it,
/// and true when it has more. A body that is not of that coding, and one of another, is left as it is. Bytes
/// after the compressed ones do not count. Of gzip and zlib that break off the beginning is returned.
pub(crate) fn expanded(body: Vec<u8>, coding: &str, limit: usize) -> (Vec<u8>, bool) {
    let begun = |(expanded, _): (Vec<u8>, bool)| (!expanded.is_empty()).then_some(expanded);
    let read = if body.starts_with(GZIP) {
        begun(read(MultiGzDecoder::new(body.as_slice()), limit))
    } else if coding.trim().eq_ignore_ascii_case("deflate") {
        // Servers disagree whether the format of zlib is meant, or what is in it. Any bytes can be the
        // beginning of the latter.
        let zlib = begun(read(ZlibDecoder::new(body.as_slice()), limit));
        let (inner, is_whole) = read(DeflateDecoder::new(body.as_slice()), limit);
        zlib.or_else(|| is_whole.then_some(inner))
    } else {
        None
    };
    let mut expanded = read.unwrap_or(body);
    let is_longer = expanded.len() > limit;
    expanded.truncate(limit);
    (expanded, is_longer)
}

/// Returns what a decoder gives, and at most one byte more than the limit. False for bytes that are not of
/// its format to their end.
fn read(decoder: impl Read, limit: usize) -> (Vec<u8>, bool) {
    let mut expanded = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let is_whole = decoder.take(most).read_to_end(&mut expanded).is_ok();
    (expanded, is_whole)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_and_both_forms_of_deflate_are_read() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"{}").unwrap();
        let zlib = zlib.finish().unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(b"{}").unwrap();
        for (body, coding) in [
            (gzip(b"{}"), "gzip"),
            (gzip(b"{}"), ""),
            (zlib.clone(), "Deflate"),
            (raw.finish().unwrap(), "deflate"),
            ([gzip(b"{}"), b"\n".to_vec()].concat(), "gzip"),
            ([gzip(b"{"), gzip(b"}")].concat(), "gzip"),
            // The checksum at the end is missing.
            (gzip(b"{}")[..gzip(b"{}").len() - 8].to_vec(), "gzip"),
            (zlib[..zlib.len() - 4].to_vec(), "deflate"),
            (b"{}".to_vec(), "deflate"),
            (b"{}".to_vec(), "gzip"),
            (b"{}".to_vec(), "br"),
            (b"{}".to_vec(), ""),
        ] {
            assert_eq!(expanded(body, coding, 2), (b"{}".to_vec(), false), "{coding}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a tenant with an endpoint
    /// - Act: replies with a few bytes that expand to gigabytes
    /// - Promise: 8
    #[test]
    fn of_a_reply_that_expands_to_more_than_the_limit_the_beginning_is_read() {
        let refusal = [br#"{"answer":"Refuse","message":""#.to_vec(), vec![b'x'; 10 << 20]].concat();
        let bomb = gzip(&refusal);
        assert!(bomb.len() < 100_000);
        assert_eq!(expanded(bomb, "gzip", 256 << 10), (refusal[..256 << 10].to_vec(), true));
    }
}
