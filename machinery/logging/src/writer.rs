//! A writer that keeps each event on one line.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::one_line;

/// Escapes the line breaks inside of each event. The subscriber writes one event at a time, with a newline at
/// its end.
pub(crate) struct OneLine<W>(pub(crate) W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLine(self.0.make_writer())
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.write_all(event).map(|()| event.len())
    }

    fn write_all(&mut self, event: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        self.0.write_all(format!("{}\n", one_line(line)).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_with_newlines_is_one_line_of_text() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(OneLine(move || writer.clone()))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = %"a\nb", "the watch\r\nbroke");
            tracing::info!("plain");
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains(r"the watch\r\nbroke") && lines[0].contains(r"a\nb"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
