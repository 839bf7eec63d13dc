//! gzip of a watch that starts with the state. As upstream (`WatchListCompression`), the state of a large
//! collection is compressed for clients that accept it.
//!
//! Every chunk can be read as soon as it is there: deflate ends it at a whole byte. Small chunks, such as the
//! later events, are stored as they are, so that an idle watch keeps no compressor and an event costs no
//! compression. All is one member of gzip; upstream writes a member for each event.

use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, Crc, FlushCompress};
use futures::{StreamExt, future, stream};

use super::reply::Events;

/// Minimum size of a chunk that is compressed.
const COMPRESSED_FROM: usize = 4 * 1024;
/// Header of gzip: deflate, no name, no time, unknown system (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Stored block that is empty and the last one (RFC 1951).
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];
/// Stored block that is empty, after which Go's reader hands out what it has (RFC 1951). Without it, clients
/// in Go would wait until 32 KiB are there.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];
/// Maximum size of a stored block.
const STORED_BYTES: usize = u16::MAX as usize;

/// Compresses the chunks of a stream, one by one.
pub(crate) fn gzip(events: Events) -> Events {
    let chunks = events.map(Some).chain(stream::once(future::ready(None)));
    let written = chunks.scan(Gzip::default(), |gzip, chunk| {
        future::ready(Some(match chunk {
            Some(Ok(chunk)) => gzip.chunk(&chunk).map_err(Into::into),
            Some(Err(error)) => Err(error),
            None => Ok(gzip.end()),
        }))
    });
    written.boxed_local()
}

/// Member of gzip in progress.
#[derive(Default)]
struct Gzip {
    started: bool,
    checksum: Crc,
}

impl Gzip {
    fn chunk(&mut self, chunk: &[u8]) -> Result<Bytes, std::io::Error> {
        let mut written = self.start(chunk.len());
        self.checksum.update(chunk);
        if chunk.len() >= COMPRESSED_FROM {
            deflate(chunk, &mut written)?;
        } else {
            store(chunk, &mut written);
        }
        Ok(written.freeze())
    }

    fn end(&mut self) -> Bytes {
        let mut written = self.start(0);
        written.put_slice(&LAST_BLOCK);
        written.put_u32_le(self.checksum.sum());
        written.put_u32_le(self.checksum.amount());
        written.freeze()
    }

    /// Returns a buffer, with the header of the member if nothing was written.
    fn start(&mut self, size: usize) -> BytesMut {
        let mut written =
            BytesMut::with_capacity(HEADER.len() + LAST_BLOCK.len() + size.min(COMPRESSED_FROM));
        if !std::mem::replace(&mut self.started, true) {
            written.put_slice(&HEADER);
        }
        written
    }
}

/// Writes blocks without compression, which are not the last ones.
fn store(chunk: &[u8], written: &mut BytesMut) {
    for block in chunk.chunks(STORED_BYTES) {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        written.put_u8(0);
        written.put_u16_le(length);
        written.put_u16_le(!length);
        written.put_slice(block);
    }
    written.put_slice(&FLUSH);
}

/// Writes compressed blocks that refer to nothing before the chunk, and end at a whole byte.
fn deflate(chunk: &[u8], written: &mut BytesMut) -> Result<(), std::io::Error> {
    let mut compress = Compress::new(Compression::fast(), false);
    let mut block = Vec::with_capacity(chunk.len() / 2);
    loop {
        let from = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        let rest = chunk.get(from..).unwrap_or_default();
        compress.compress_vec(rest, &mut block, FlushCompress::Sync)?;
        // A flush is complete when it leaves space.
        if compress.total_in() == chunk.len() as u64 && block.len() < block.capacity() {
            break;
        }
        block.reserve(block.len().max(COMPRESSED_FROM));
    }
    written.put_slice(&block);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzDecoder;

    use super::*;

    /// Text that compresses badly.
    fn text(size: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = std::iter::from_fn(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((state >> 24).to_le_bytes()[0])
        });
        next.take(size).collect()
    }

    #[test]
    fn each_chunk_can_be_read_before_the_next_one_is_written() {
        let large = "soup".repeat(20_000).into_bytes();
        let chunks = [b"a\n".to_vec(), large.clone(), b"b\n".to_vec(), text(200_000), text(4095), large];
        let (mut gzip, mut decoder) = (Gzip::default(), GzDecoder::new(Vec::new()));
        let mut sent = 0;
        for chunk in &chunks {
            let written = gzip.chunk(chunk).expect("compressed");
            assert!(written.ends_with(&FLUSH[1..]), "Go's reader hands it out");
            sent += written.len();
            decoder.write_all(&written).expect("gzip");
            decoder.flush().expect("gzip");
            let read = std::mem::take(decoder.get_mut());
            assert!(read == *chunk, "{} of {} bytes", read.len(), chunk.len());
        }
        assert!(sent < 210_000, "{sent} bytes for the two large ones");
        decoder.write_all(&gzip.end()).expect("gzip");
        assert!(decoder.finish().expect("the right checksum").is_empty());
    }

    #[test]
    fn a_watch_without_events_is_an_empty_member() {
        let mut decoder = GzDecoder::new(Vec::new());
        decoder.write_all(&Gzip::default().end()).expect("gzip");
        assert!(decoder.finish().expect("the right checksum").is_empty());
    }
}
