//! A command's output: passed on to the agent's own, the end of it kept.

use std::io::Write;

use tokio::io::{AsyncRead, AsyncReadExt};

/// How much of the end is kept, in bytes.
const KEPT: usize = 4096;

/// The end of a stream.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(KEPT);
        self.0.drain(..surplus);
    }

    /// The text, with what is not UTF-8 replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// Reads to the end of the stream, and keeps in `tail` what it read even when it is dropped before.
pub(crate) async fn follow(stream: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let bytes = chunk.get(..read).unwrap_or_default();
        // Whether the agent's own log takes it changes nothing.
        std::io::stderr().write_all(bytes).ok();
        tail.add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.add(&[b'x'; 1000]);
        }
        tail.add(b"\nthe end");
        assert_eq!(tail.text().len(), KEPT);
        assert!(tail.text().ends_with("x\nthe end"));
    }
}
