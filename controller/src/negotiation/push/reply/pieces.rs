//! Fields of a reply that no parser of JSON reads: a warning of the framework before the object, a quote in a
//! message, a comma too many, an end that was cut off.

use evacuation_api::Json;

/// Returns each word with the word before it, where `:`, `=` or `>` stands between them: the names of fields
/// and their values, in JSON and in most formats that are not JSON. Of a text with blanks it is the first
/// word.
pub(super) fn pieces(text: &str) -> Vec<(String, Json)> {
    let (mut name, mut between, mut word) = (String::new(), String::new(), String::new());
    let mut pieces = Vec::new();
    // UTF-32 that is read as another encoding has a NUL beside each character.
    for c in text.chars().filter(|c| *c != '\0').chain([' ']) {
        if c.is_alphanumeric() || "_-+.".contains(c) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            if is_assignment(&between) {
                pieces.push((name, Json::from(word.as_str())));
            }
            name = std::mem::take(&mut word);
            between.clear();
        }
        between.push(c);
    }
    pieces
}

/// Returns true for the characters between a name and its value.
fn is_assignment(between: &str) -> bool {
    between.contains([':', '=', '>']) && !between.contains([',', ';', '{', '}', '[', '<'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_value_are_found_in_any_format() {
        for text in [
            r#"{"answer": "Refuse","#,
            "{'answer': 'Refuse'}",
            r#"{\"answer\":\"Refuse\"}"#,
            "answer: Refuse",
            "a=1&answer=Refuse",
            "<b><answer>Refuse</answer></b>",
            "<reply answer=\"Refuse\"/>",
            "Array ( [answer] => Refuse )",
            "{\0\"\0a\0n\0s\0w\0e\0r\0\"\0:\0\"\0R\0e\0f\0u\0s\0e\0",
        ] {
            let found = pieces(text);
            assert!(found.contains(&("answer".to_owned(), "Refuse".into())), "{text}: {found:?}");
        }
        for text in [
            "the answer must be Accept, Delay or Refuse",
            r#"{"answer": ["Refuse"]}"#,
            r#"{"answer": {"Refuse": 1}}"#,
            r#"{"words": ["answer", "Refuse"]}"#,
            "<answer></answer><b>Refuse</b>",
            "",
        ] {
            let found = pieces(text);
            assert!(!found.iter().any(|(name, _)| name == "answer"), "{text}: {found:?}");
        }
    }
}
