//! The documents of a text.

use machinery_merge::{DecodeError, Parsed, parse_json, parse_yaml};

/// Reads each document of a text: JSON, or YAML documents with lines of `---` between them.
pub(crate) fn documents(text: &str) -> impl Iterator<Item = Result<Parsed, DecodeError>> {
    let is_json = text.trim_start().starts_with('{');
    let texts = if is_json { vec![text] } else { split(text) };
    texts.into_iter().map(
        move |text| {
            if is_json { parse_json(text.as_bytes()) } else { parse_yaml(text.as_bytes()) }
        },
    )
}

/// Splits at lines that begin with `---`. A block of text inside of a document is indented and has none.
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
        !line.is_empty() && !line.starts_with('#') && line != "---" && line != "..."
    })
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
        ] {
            let documents: Vec<_> = documents(text).map(Result::unwrap).collect();
            assert_eq!(documents.len(), expected, "{text:?}");
        }
    }
}
