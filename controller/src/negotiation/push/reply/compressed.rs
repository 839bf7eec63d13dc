//! Compressed replies. None is asked for, and some servers compress all the same.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// First bytes of gzip, which no JSON begins with.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Returns the body as it was before it was compressed in that content coding, or `None` when that has more
/// than `limit` bytes. A body that is not of that coding, and one of another, is left as it is. Bytes after
/// the compressed ones do not count. Of gzip that breaks off the beginning is returned.
pub(crate) fn expanded(body: Vec<u8>, coding: &str, limit: usize) -> Option<Vec<u8>> {
    let read = if body.starts_with(GZIP) {
        let (begun, _) = read(MultiGzDecoder::new(body.as_slice()), limit);
        (!begun.is_empty()).then_some(begun)
    } else if coding.trim().eq_ignore_ascii_case("deflate") {
        // Servers disagree whether the format of zlib is meant, or what is in it.
        let whole = |(expanded, is_whole): (Vec<u8>, bool)| is_whole.then_some(expanded);
        let zlib = whole(read(ZlibDecoder::new(body.as_slice()), limit));
        zlib.or_else(|| whole(read(DeflateDecoder::new(body.as_slice()), limit)))
    } else {
        None
    };
    let expanded = read.unwrap_or(body);
    (expanded.len() <= limit).then_some(expanded)
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
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(b"{}").unwrap();
        for (body, coding) in [
            (gzip(b"{}"), "gzip"),
            (gzip(b"{}"), ""),
            (zlib.finish().unwrap(), "Deflate"),
            (raw.finish().unwrap(), "deflate"),
            ([gzip(b"{}"), b"\n".to_vec()].concat(), "gzip"),
            ([gzip(b"{"), gzip(b"}")].concat(), "gzip"),
            // The checksum at the end is missing.
            (gzip(b"{}")[..gzip(b"{}").len() - 8].to_vec(), "gzip"),
            (b"{}".to_vec(), "deflate"),
            (b"{}".to_vec(), "gzip"),
            (b"{}".to_vec(), "br"),
            (b"{}".to_vec(), ""),
        ] {
            assert_eq!(expanded(body, coding, 2).as_deref(), Some(&b"{}"[..]), "{coding}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a tenant with an endpoint
    /// - Act: replies with a few bytes that expand to gigabytes
    /// - Promise: 8
    #[test]
    fn a_reply_that_expands_to_more_than_the_limit_is_not_read() {
        let bomb = gzip(&vec![0; 10 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(expanded(bomb, "gzip", 256 << 10), None);
    }
}
