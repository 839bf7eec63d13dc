//! The agent's log: lines on standard error, without the memory that a whole subscriber takes.

use std::fmt::{self, Write};

use evacuation_client::error_chain;
use machinery_logging::one_line;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Writes events of level INFO and above to standard error, one line each. The container's runtime adds the
/// times.
///
/// Spans are left out, and so are kube's events: it logs every failed request, and the client crate logs
/// those that matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn of(event: &Event<'_>) -> String {
        let mut line = Self::default();
        event.record(&mut line);
        let text = format!("{} {}{}", event.metadata().level(), line.message, line.fields);
        one_line(&text).into_owned()
    }
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
        write!(self.fields, " {}=\"{}\"", field.name(), error_chain(value)).ok();
    }
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let kube = metadata.target().starts_with("kube_");
        metadata.is_event() && *metadata.level() <= Level::INFO && !kube
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
        eprintln!("{}", Line::of(event));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// As [`Stderr`], with the lines kept.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Stderr.enabled(metadata)
        }
        fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
            Stderr.new_span(span)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(Line::of(event));
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn each_event_is_one_line_and_kubes_are_left_out() {
        let kept = Kept::default();
        tracing::subscriber::with_default(kept.clone(), || {
            tracing::warn!(error = %"first\nsecond", "the work failed: {}", "a\r\nb");
            tracing::warn!(target: "kube_runtime::watcher", "watch list error with 403: Status {{ .. }}");
            tracing::debug!("a detail");
        });
        let lines = kept.0.lock().unwrap().clone();
        assert_eq!(lines, [r"WARN the work failed: a\r\nb error=first\nsecond"]);
    }
}
