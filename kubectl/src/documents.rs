//! The documents of a text.

use machinery_merge::{DecodeError, Parsed, parse_json, parse_yaml};
use serde::de::IgnoredAny;

/// Reads each document of a text: YAML documents with lines of `---` between them, and JSON objects in a
/// row, with or without space between them.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Result<Parsed, DecodeError>> {
    split(text).into_iter().flat_map(parse)
}

/// Splits at lines that begin with `---`. A block of text inside of a document is indented and has none, and
/// a string of JSON has no lines.
fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut position) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            documents.push((start, position));
            start = position;
        }
        position += line.len();
    }
    documents.push((start, position));
    let texts = documents.into_iter().filter_map(|(start, end)| text.get(start..end));
    texts.filter(|text| has_content(text)).collect()
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
        return vec![parse_yaml(part.as_bytes())];
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
            Err(error) => match parse_yaml(part.as_bytes()) {
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
            ("{\"a\": 1}", 1),
            ("%YAML 1.2\n---\na: 1\n", 1),
        ] {
            let documents: Vec<_> = documents(text).map(Result::unwrap).collect();
            assert_eq!(documents.len(), expected, "{text:?}");
        }
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
