//! The server-side Table: `metav1.Table`.

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::{Column, item::DecodedItem, resource::Resource};

/// Description of the name, as upstream.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
    resources may allow a client to request the generation of an appropriate name automatically. Name is primarily \
    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Description of the age, as upstream.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It \
    is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the definitions of the columns: the name, the kind's own, the age.
pub(crate) fn column_definitions(columns: &[Column]) -> Value {
    let name = Column { name: "Name", column_type: "string", format: "name", description: NAME, priority: 0 };
    let age = Column { name: "Age", column_type: "date", format: "", description: AGE, priority: 0 };
    let definition = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.column_type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    std::iter::once(&name).chain(columns).chain(std::iter::once(&age)).map(definition).collect()
}

/// Returns the cells of one row, as many as there are columns.
pub(crate) fn cells(resource: &dyn Resource, item: &dyn DecodedItem, now: DateTime<Utc>) -> Value {
    let metadata = item.metadata();
    let mut own = resource.cells(item);
    own.resize(resource.columns().len(), Value::Null);
    let name = Value::from(metadata.name.clone().unwrap_or_default());
    std::iter::once(name).chain(own).chain(std::iter::once(Value::from(age(metadata, now)))).collect()
}

fn age(metadata: &ObjectMeta, now: DateTime<Utc>) -> String {
    let created = metadata.creation_timestamp.as_ref();
    let created = created.and_then(|time| DateTime::from_timestamp(time.0.as_second(), 0));
    created.map_or_else(|| "<unknown>".to_owned(), |created| human_duration(now - created))
}

/// Formats a duration as `k8s.io/apimachinery/pkg/util/duration.HumanDuration` does: two units at most, fewer
/// the longer it is.
fn human_duration(duration: TimeDelta) -> String {
    let seconds = duration.num_seconds();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, 'd', hours % 24, 'h'),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_shows_them() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(TimeDelta::seconds(seconds)), text, "{seconds}");
        }
    }
}
