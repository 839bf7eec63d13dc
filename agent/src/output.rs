//! A command's output: passed on, and its end kept.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Number of bytes that are kept of the end.
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

    /// The text. Bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// Reads to the end of the stream, passes on each chunk, and keeps the end in `tail`. Nothing is lost when
/// this is dropped.
pub(crate) async fn follow(
    stream: Option<impl AsyncRead + Unpin>,
    tail: &mut Tail,
    pass_on: &(impl Fn(&[u8]) + Sync),
) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let bytes = chunk.get(..read).unwrap_or_default();
        pass_on(bytes);
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
