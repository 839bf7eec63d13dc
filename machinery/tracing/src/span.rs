//! Spans.

use std::time::SystemTime;

use opentelemetry::{
    Context, KeyValue, Value,
    propagation::{Extractor, TextMapPropagator},
    trace::{FutureExt, Link, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer},
};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};

use crate::Traces;

/// Maximum length of an attribute's text.
const LONGEST: usize = 1024;

/// Start of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestStart<'a> {
    /// Name of the span, such as `GET /apis/example.dev/v1/namespaces/{:namespace}/pots/{:name}`.
    pub name: &'a str,
    /// Time at which the request arrived.
    pub received: SystemTime,
    /// The header `traceparent`.
    pub traceparent: &'a str,
    /// The header `tracestate`.
    pub tracestate: &'a str,
    /// True when the caller may decide on sampling.
    pub trusted: bool,
}

/// Span of a request or of a part of it. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(Context);

/// Tracer of a request, in its context.
#[derive(Debug)]
struct CurrentTracer(SdkTracer);

struct Headers<'a> {
    traceparent: &'a str,
    tracestate: &'a str,
}

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let value = match key {
            "traceparent" => self.traceparent,
            "tracestate" => self.tracestate,
            _ => "",
        };
        Some(value).filter(|value| !value.is_empty())
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

impl Traces {
    /// Starts the span of a request.
    pub fn request(&self, start: RequestStart<'_>) -> Span {
        let RequestStart { name, received, traceparent, tracestate, trusted } = start;
        let headers = Headers { traceparent, tracestate: if trusted { tracestate } else { "" } };
        let caller = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let mut builder =
            SpanBuilder::from_name(name.to_owned()).with_kind(SpanKind::Server).with_start_time(received);
        let mut parent = caller.clone();
        if !trusted {
            parent = Context::new();
            let remote = caller.span().span_context().clone();
            if remote.is_valid() {
                builder = builder.with_links(vec![Link::with_context(remote)]);
            }
        }
        let span = self.tracer.build_with_context(builder, &parent);
        let context = Context::new().with_value(CurrentTracer(self.tracer.clone()));
        Span(context.with_span(span))
    }
}

impl Span {
    /// Starts a child of the current span; `None` when the current span is not sampled, or there is none.
    pub fn child_of_current(name: &'static str) -> Option<Self> {
        Context::map_current(|current| Self::child_of(current, name))
    }

    /// Starts a span for a part; `None` when this span is not sampled.
    pub fn child(&self, name: &'static str) -> Option<Self> {
        Self::child_of(&self.0, name)
    }

    fn child_of(parent: &Context, name: &'static str) -> Option<Self> {
        let CurrentTracer(tracer) = parent.get()?;
        if !parent.span().is_recording() {
            return None;
        }
        let span = tracer.build_with_context(SpanBuilder::from_name(name), parent);
        Some(Self(parent.with_span(span)))
    }

    /// Adds a part that is over.
    pub fn part(&self, name: &'static str, from: SystemTime, to: SystemTime) {
        if let Some(CurrentTracer(tracer)) = self.0.get()
            && self.is_sampled()
        {
            let builder = SpanBuilder::from_name(name).with_start_time(from);
            let span = tracer.build_with_context(builder, &self.0);
            self.0.with_span(span).span().end_with_timestamp(to);
        }
    }

    /// Returns true when the span is sampled. Otherwise its attributes are not kept.
    pub fn is_sampled(&self) -> bool {
        self.0.span().is_recording()
    }

    /// Sets a text. A long one is cut.
    pub fn text(&self, key: &'static str, value: &str) {
        if self.is_sampled() {
            let value: String = value.chars().take(LONGEST).collect();
            self.0.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Sets a number.
    pub fn number(&self, key: &'static str, value: i64) {
        self.0.span().set_attribute(KeyValue::new(key, Value::I64(value)));
    }

    /// Marks the span as failed.
    pub fn fail(&self, message: &str) {
        self.0.span().set_status(Status::error(message.to_owned()));
    }

    /// Runs a future in a child of the current span, if that is sampled.
    pub async fn run_part<F: Future>(name: &'static str, future: F) -> F::Output {
        match Self::child_of_current(name) {
            Some(span) => span.run(future).await,
            None => future.await,
        }
    }

    /// Runs a future in the span: spans that it starts by [`Span::child_of_current`] are children of
    /// this one.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        future.with_context(self.0.clone()).await
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn traces(rate: u32) -> (Traces, InMemorySpanExporter) {
        let exporter = InMemorySpanExporter::default();
        let builder = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
        (Traces::with(builder, rate), exporter)
    }

    fn start(traceparent: &str, trusted: bool) -> RequestStart<'_> {
        RequestStart { name: "GET /", received: SystemTime::now(), traceparent, tracestate: "", trusted }
    }

    /// The spans of one request with a part.
    async fn spans_of(rate: u32, traceparent: &str, trusted: bool) -> Vec<SpanData> {
        let (traces, exporter) = traces(rate);
        let span = traces.request(start(traceparent, trusted));
        span.run(async { drop(Span::child_of_current("part")) }).await;
        drop(span);
        traces.flush();
        exporter.get_finished_spans().expect("spans")
    }

    #[tokio::test]
    async fn a_trusted_callers_trace_is_continued_and_decides_on_sampling() {
        let spans = spans_of(0, SAMPLED, true).await;
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_ref()).collect();
        assert_eq!(names, ["part", "GET /"]);
        assert!(spans.iter().all(|span| span.span_context.trace_id().to_string() == TRACE));
        assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
        assert_eq!(spans[1].parent_span_id.to_string(), "b7ad6b7169203331");
        assert!(spans_of(1_000_000, NOT_SAMPLED, true).await.is_empty());
    }

    #[tokio::test]
    async fn no_other_caller_can_force_sampling_and_its_trace_is_linked() {
        assert!(spans_of(0, SAMPLED, false).await.is_empty());
        let spans = spans_of(1_000_000, NOT_SAMPLED, false).await;
        assert_eq!(spans.len(), 2);
        assert_ne!(spans[1].span_context.trace_id().to_string(), TRACE);
        let links: Vec<String> =
            spans[1].links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
        assert_eq!(links, [TRACE]);
    }

    #[tokio::test]
    async fn nonsense_in_the_header_is_no_trace() {
        for nonsense in ["", "00-zz", "x", "00-00000000000000000000000000000000-0000000000000000-01"] {
            assert!(spans_of(0, nonsense, true).await.is_empty(), "{nonsense}");
            assert_eq!(spans_of(1_000_000, nonsense, false).await.len(), 2, "{nonsense}");
        }
    }

    #[tokio::test]
    async fn there_is_no_part_without_a_request() {
        assert!(Span::child_of_current("part").is_none());
    }
}
