//! The documents of a text.

use machinery_merge::{DecodeError, Parsed, parse_json, parse_manifest};
use serde::de::IgnoredAny;

/// Maximum length of a line in an error, in characters.
const MAX_LINE: usize = 40;

/// Reads each document of a text: YAML documents with lines of `---` between them, and JSON objects in a
/// row, with or without space between them.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Result<Parsed, DecodeError>> {
    let parts = split(text).into_iter();
    parts.flat_map(|part| part.map_or_else(|error| vec![Err(error)], parse))
}

/// Splits at lines that begin with `---`, as kubectl does: a comment may follow. A block of text inside of a
/// document is indented and has none, and a string of JSON has no lines.
fn split(text: &str) -> Vec<Result<&str, DecodeError>> {
    let mut parts = Vec::new();
    let (mut start, mut position) = (0, 0);
    for line in text.split_inclusive('\n') {
        let end = position + line.len();
        if let Some(rest) = line.strip_prefix("---") {
            let is_first = start == position;
            // The parser reads the line that begins a document, and needs a space in front of a comment.
            let is_comment = rest.trim().starts_with('#') && !(is_first && rest.starts_with('#'));
            let is_separator = is_comment || rest.trim().is_empty();
            if !(is_first && is_separator) {
                parts.extend(text.get(start..position).map(Ok));
                start = end;
            }
            if !is_separator {
                let shown: String = line.trim_end().chars().take(MAX_LINE).collect();
                let message = format!("{shown:?} is no separator: only a comment may follow its dashes");
                parts.push(Err(DecodeError::Malformed { message }));
            }
        }
        position = end;
    }
    parts.extend(text.get(start..).map(Ok));
    parts.retain(|part| part.as_ref().map_or(true, |text| has_content(text)));
    parts
}

fn has_content(document: &str) -> bool {
    document.lines().any(|line| {
        let line = line.trim();
        // A line with `%` is a directive, such as `%YAML 1.2`.
        !line.is_empty() && !line.starts_with(['#', '%']) && line != "---" && line != "..."
    })
}

/// Reads a part between two separators: JSON objects, or one YAML document.
fn parse(part: &str) -> Vec<Result<Parsed, DecodeError>> {
    let body = part.strip_prefix("---").unwrap_or(part);
    if !body.trim_start().starts_with('{') {
        return vec![parse_manifest(part.as_bytes())];
    }
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<IgnoredAny>();
    let (mut documents, mut start) = (Vec::new(), 0);
    while let Some(value) = values.next() {
        let end = values.byte_offset();
        match value {
            Ok(_) => {
                documents.push(parse_json(body.get(start..end).unwrap_or_default().as_bytes()));
                start = end;
            }
            // A mapping of YAML begins with a brace, too.
            Err(error) => match parse_manifest(part.as_bytes()) {
                Ok(whole) => return vec![Ok(whole)],
                Err(_) => documents.push(Err(DecodeError::Malformed { message: error.to_string() })),
            },
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_separators_and_comments_alone_are_no_document() {
        for (text, expected) in [
            ("", 0),
            ("# nothing\n---\n", 0),
            ("a: 1\n", 1),
            ("---\na: 1\n---\n# none\n---\nb: 2\n", 2),
            ("a: |\n  one\n  ---\n  two\n", 1),
            ("a: 1\r\n---\r\nb: 2\r\n", 2),
            ("--- # first\na: 1\n", 1),
            ("a: 1\n---  \t\nb: 2\n", 2),
            ("a: 1\n--- # second\nb: 2\n", 2),
            ("a: 1\n---#second\nb: 2\n", 2),
            ("a: 1\n---\t#second\r\nb: 2\n", 2),
            ("# none\n---#first\na: 1\n---#none\n", 1),
            ("{\"a\": 1}\n---#second\n{\"b\": 2}", 2),
            ("---\n---\na: 1\n---", 1),
            ("{\"a\": 1}", 1),
            ("%YAML 1.2\n---\na: 1\n", 1),
        ] {
            let documents: Vec<_> = documents(text).map(Result::unwrap).collect();
            assert_eq!(documents.len(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_separator_that_kubectl_does_not_read_is_an_error_and_the_documents_around_it_are_read() {
        for (text, expected) in [
            ("a: 1\n--- b: 2\nc: 3\n", "\"--- b: 2\" is no separator"),
            ("a: 1\n----\nc: 3\n", "\"----\" is no separator"),
            ("a: 1\n---\n---#twice\nc: 3\n", "\"---#twice\" is no separator"),
        ] {
            let found: Vec<_> = documents(text).collect();
            let [Ok(first), Err(error), Ok(last)] = found.as_slice() else { panic!("{text}: {found:?}") };
            assert_eq!(
                (&first.value, &last.value),
                (&serde_json::json!({"a": 1}), &serde_json::json!({"c": 3}))
            );
            assert!(error.to_string().contains(expected), "{error}");
        }
        let found: Vec<_> = documents("---#first\na: 1\n").collect();
        assert!(matches!(found.as_slice(), [Err(_), Ok(_)]), "{found:?}");
    }

    #[test]
    fn json_objects_in_a_row_are_documents_of_their_own() {
        for text in [
            r#"{"a": 1}{"b": {"c": "}{"}}"#,
            "{\"a\": 1}\n{\n \"b\": {\"c\": \"}{\"}\n}\n",
            "{\"a\": 1}\r\n\r\n\t{\"b\": {\"c\": \"}{\"}}",
            "{\"a\": 1}\n---\n{\"b\": {\"c\": \"}{\"}}\n",
            "---\n{\"a\": 1} {\"b\": {\"c\": \"}{\"}}",
            "{\"a\": 1}\n---\nb: {c: '}{'}\n",
            "{a: 1}\n---\n{b: {c: '}{'}} # YAML\n",
        ] {
            let values: Vec<_> = documents(text).map(|document| document.unwrap().value).collect();
            assert_eq!(
                values,
                [serde_json::json!({"a": 1}), serde_json::json!({"b": {"c": "}{"}})],
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_wrong_behind_a_json_object_is_an_error_and_the_object_is_read() {
        for text in ["{\"a\": 1} {\"b\"", "{\"a\": 1}, {\"b\": 2}", "{\"a\": 1}\n}\n"] {
            let found: Vec<_> = documents(text).collect();
            assert!(matches!(found.as_slice(), [Ok(_), Err(_)]), "{text:?}: {found:?}");
        }
        let found: Vec<_> = documents("{{ .Values.name }}").collect();
        assert!(matches!(found.as_slice(), [Err(_)]), "{found:?}");
    }
}
