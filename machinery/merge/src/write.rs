//! From a value to YAML.

use serde::Serialize;
use serde_saphyr::{ser_options, to_string_with_options};

use crate::EncodeError;

/// Writes a value of JSON as one YAML document, which ends with a line break.
///
/// Every reader gets the same value, those of YAML 1.1 too: Go's, which kubectl and client-go use, and
/// Python's. A key or text is quoted when one of them would read it as a number, boolean, null, time or merge
/// key, such as `on`, `no`, `1:30` and `2026-01-01`. A text of several lines is quoted: Go's reader refuses a
/// block whose first line starts with a tab. Lines are not folded.
///
/// # Errors
///
/// A key is no scalar, or the value fails to serialise.
pub fn to_yaml(value: &impl Serialize) -> Result<String, EncodeError> {
    let options = ser_options! { folded_wrap_chars: usize::MAX, prefer_block_scalars: false };
    to_string_with_options(value, options).map_err(|error| EncodeError { message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::parse_yaml;

    #[test]
    fn texts_that_look_like_other_values_are_quoted_and_others_are_not() {
        let value = json!({
            "on": "yes", "1": "1", "n": "NO", "time": "2026-01-01", "minutes": "1:30", "nothing": "~",
            "plain": "a-b.c/d", "lines": "a\n\tb\n", "empty": {}, "none": [], "list": [{"name": "x", "of": [1.5]}],
        });
        let text = to_yaml(&value).expect("YAML");
        let expected = "\"1\": \"1\"\nempty: {}\nlines: \"a\\n\\tb\\n\"\nlist:\n- name: x\n  of:\n  - 1.5\n\
            minutes: \"1:30\"\n\"n\": \"NO\"\nnone: []\nnothing: \"~\"\n\"on\": \"yes\"\nplain: a-b.c/d\n\
            time: \"2026-01-01\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_deepest_value_that_can_be_read_as_json_can_be_written() {
        let deep = (0..127)
            .fold(json!(1), |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({"a": inner}) });
        let read: Value = serde_json::from_str(&deep.to_string()).expect("JSON");
        assert!(to_yaml(&read).expect("YAML").ends_with("- 1\n"));
    }

    #[test]
    fn what_is_written_is_read_as_the_same_value() {
        for text in [
            "", " a", "a ", "a: b", "- a", "#", "\u{85}", "\u{feff}", "a\r\nb", "---", "\t", "'", "\"", "\\n",
        ] {
            let value = json!({text: [text, {text: text}]});
            let written = to_yaml(&value).expect("YAML");
            assert_eq!(parse_yaml(written.as_bytes()).expect("YAML").value, value, "{written}");
        }
    }
}
