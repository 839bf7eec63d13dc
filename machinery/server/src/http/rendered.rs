//! Events that were rendered lately.

use std::{fmt, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use moka::sync::Cache;

use super::{accept::Form, encoding::Encoding, render::Renderer};
use crate::{
    ApiError,
    registry::{EventType, WatchEvent},
};

/// Maximum size of the events together, in bytes.
const MOST_BYTES: u64 = 2 * 1024 * 1024;
/// Time after which an event is forgotten.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// Events in another form than the object itself, rendered once for all the watches that show them.
#[derive(Clone)]
pub(crate) struct Rendered(Cache<Key, Bytes>);

/// Event in one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Identity of the item.
    item: u64,
    event_type: EventType,
    form: Form,
    encoding: Encoding,
    /// True for a table with the definitions of its columns.
    with_columns: bool,
    /// Time in seconds, which the ages in a table depend on; 0 for other forms.
    second: i64,
}

impl Key {
    /// Returns the key of an event; `None` when its item belongs to one watch, or has its JSON made anyway.
    fn new(renderer: &Renderer<'_>, event: &WatchEvent, first: bool) -> Option<Self> {
        let is_table = match renderer.form {
            Form::Object => return None,
            Form::Metadata(_) => false,
            Form::Table(..) => true,
        };
        Some(Self {
            item: event.item.identity()?,
            event_type: event.event_type,
            form: renderer.form,
            encoding: renderer.encoding,
            with_columns: is_table && first,
            second: if is_table { renderer.now.timestamp() } else { 0 },
        })
    }
}

impl Rendered {
    pub(crate) fn new() -> Self {
        let size = |_: &Key, line: &Bytes| u32::try_from(line.len()).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(MOST_BYTES).weigher(size).time_to_live(KEPT_FOR).build())
    }

    /// Writes one event of a watch, see [`Renderer::event`].
    pub(crate) fn event(
        &self,
        renderer: &Renderer<'_>,
        event: &WatchEvent,
        first: bool,
        lines: &mut BytesMut,
    ) -> Result<(), ApiError> {
        let Some(key) = Key::new(renderer, event, first) else {
            return renderer.event(event, first, lines);
        };
        let render = || -> Result<Bytes, ApiError> {
            let mut line = BytesMut::new();
            renderer.event(event, first, &mut line)?;
            Ok(line.freeze())
        };
        match self.0.try_get_with(key, render) {
            Ok(line) => lines.put(line),
            // The failure is shared, and each watch needs its own.
            Err(_) => renderer.event(event, first, lines)?,
        }
        Ok(())
    }
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rendered")
    }
}
