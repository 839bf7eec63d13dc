//! Lines of JSON.
//!
//! tracing-subscriber's own form leaves out the causes of errors, and nests the message.

use std::{error::Error, fmt};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_log::NormalizeEvent;
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Fields that the bridge of the crate `log` adds.
const OF_BRIDGE: &str = "log.";

/// Writes each event as one object with `timestamp`, `level`, `target`, `message`, and its other fields in
/// `fields`.
pub(crate) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let normalized = event.normalized_metadata();
        let metadata = normalized.as_ref().unwrap_or_else(|| event.metadata());
        let mut said = Said::default();
        event.record(&mut said);
        let spans: Vec<Value> = context
            .event_scope()
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
            .map(|span| {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map(|fields| fields.fields.as_str());
                Value::from(format!("{}{{{}}}", span.name(), fields.unwrap_or_default()))
            })
            .collect();
        let mut object = line(*metadata.level(), metadata.target(), &said.message, said.fields);
        if !spans.is_empty() {
            object.insert("spans".to_owned(), spans.into());
        }
        writeln!(writer, "{}", Value::Object(object))
    }
}

/// Returns the object of a line that is written now.
pub(crate) fn line(
    level: Level,
    target: &str,
    message: &str,
    fields: Map<String, Value>,
) -> Map<String, Value> {
    let mut timestamp = String::new();
    // A clock before 1970 is the only failure.
    SystemTime.format_time(&mut Writer::new(&mut timestamp)).ok();
    let mut object = Map::new();
    object.insert("timestamp".to_owned(), timestamp.into());
    object.insert("level".to_owned(), level.as_str().into());
    object.insert("target".to_owned(), target.into());
    object.insert("message".to_owned(), message.into());
    if !fields.is_empty() {
        object.insert("fields".to_owned(), fields.into());
    }
    object
}

/// Returns an error and its causes as `a: b: c`. A cause that an outer error repeats is left out.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
}

impl Said {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, _) if name.starts_with(OF_BRIDGE) => {}
            (name, value) => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add(field, with_causes(value).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::{layer::SubscriberExt, registry};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no connection to {0}")]
    struct Outer(&'static str, #[source] std::io::Error);

    #[test]
    fn a_line_has_the_message_the_fields_with_their_types_and_the_causes_of_an_error() {
        let log = Log::default();
        let writer = log.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .event_format(JsonLine)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(registry().with(layer), || {
            let error = Outer("etcd", std::io::Error::other("refused\nby peer"));
            let error = &error as &(dyn Error + 'static);
            let _span = tracing::info_span!("request", verb = "get").entered();
            tracing::warn!(error, tries = 3, level = "high", pod = %"db-0", "the watch {}", "broke");
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut object: Value = serde_json::from_str(&text).unwrap();
        let timestamp = object["timestamp"].take();
        assert!(timestamp.as_str().is_some_and(|time| time.ends_with('Z')), "{timestamp}");
        let expected = serde_json::json!({
            "timestamp": null, "level": "WARN", "target": module_path!(), "message": "the watch broke",
            "fields": {
                "error": "no connection to etcd: refused\nby peer", "tries": 3, "level": "high", "pod": "db-0",
            },
            "spans": ["request{verb=\"get\"}"],
        });
        assert_eq!(object, expected);
    }
}
