//! The agent's log: lines on standard error, without the memory that a whole subscriber takes.

use std::fmt::{self, Write};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Writes events of level INFO and above to standard error, one line each; spans are left out. The container's
/// runtime adds the times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        if field.name() == "message" {
            write!(self.message, "{value:?}").ok();
        } else {
            write!(self.fields, " {}={value:?}", field.name()).ok();
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        write!(self.fields, " {}=\"{value}", field.name()).ok();
        let mut cause = value.source();
        while let Some(error) = cause {
            write!(self.fields, ": {error}").ok();
            cause = error.source();
        }
        self.fields.push('"');
    }
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        eprintln!("{} {}{}", event.metadata().level(), line.message, line.fields);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
