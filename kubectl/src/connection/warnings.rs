//! Warnings of an API server, which are headers of its replies.

use http::{HeaderMap, header::WARNING};

/// Returns the texts of the warnings of a reply. Source of the form: `299 agent "text"`, RFC 7234, section
/// 5.5.
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<String> {
    headers.get_all(WARNING).iter().filter_map(|value| text(value.to_str().ok()?)).collect()
}

fn text(value: &str) -> Option<String> {
    let (_, quoted) = value.strip_prefix("299 ")?.split_once(" \"")?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_warning_is_unquoted() {
        for (value, expected) in [
            (r#"299 - "unknown field \"spec.a\"""#, Some(r#"unknown field "spec.a""#)),
            (r#"299 - "a" "Mon, 01 Jan 2026 00:00:00 GMT""#, Some("a")),
            (r#"110 - "stale""#, None),
            (r#"299 - "cut"#, None),
        ] {
            assert_eq!(text(value).as_deref(), expected, "{value}");
        }
    }
}
