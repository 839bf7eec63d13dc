//! Text that a parser of JSON takes.

use std::{borrow::Cow, fmt::Write as _};

use super::trimmed;

/// Escape of the character that stands for a lost one.
const LOST: &str = "\\ufffd";

/// Returns the text without the blanks around it, and with strings that JSON allows: halves of a UTF-16 pair,
/// which a cut emoji leaves, and unknown escapes lose their meaning, control characters are escaped.
pub(super) fn mended(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (trimmed(text).chars(), false);
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                in_string = !in_string;
                mended.push(c);
            }
            '\\' if in_string => {
                let (escape, length) = escape(rest.as_str());
                mended.push_str(&escape);
                rest = rest.as_str().get(length..).unwrap_or_default().chars();
            }
            c if in_string && c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(mended, "\\u{:04x}", u32::from(c));
            }
            c => mended.push(c),
        }
    }
    mended
}

/// Returns what an escape sequence becomes, whose backslash stands before `rest`, and its length without the
/// backslash, in bytes.
fn escape(rest: &str) -> (Cow<'_, str>, usize) {
    let Some(kind) = rest.chars().next() else { return (Cow::Borrowed(""), 0) };
    if kind != 'u' {
        let is_known = "\"\\/bfnrt".contains(kind);
        let text = if is_known { format!("\\{kind}") } else { String::new() };
        return (text.into(), if is_known { kind.len_utf8() } else { 0 });
    }
    match (unit(rest), rest.get(5..).and_then(|next| unit(next.strip_prefix('\\')?))) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
            (format!("\\{}", rest.get(..11).unwrap_or_default()).into(), 11)
        }
        (Some(0xd800..=0xdfff), _) => (LOST.into(), 5),
        (Some(_), _) => (format!("\\{}", rest.get(..5).unwrap_or_default()).into(), 5),
        (None, _) => (LOST.into(), 1),
    }
}

/// Returns the UTF-16 unit of an escape: `u` and four hexadecimal digits.
fn unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn strings_are_mended_and_all_else_stays() {
        let table = [
            (r#"{"a": "b\n\u00fc\ud83d\ude00"}"#, "b\nü😀"),
            (r#"{"a": "cut \ud83d"}"#, "cut \u{fffd}"),
            (r#"{"a": "\ude00\ud83d\u0041"}"#, "\u{fffd}\u{fffd}A"),
            (r#"{"a": "\ud83d\ud83d\ude00"}"#, "\u{fffd}😀"),
            (r#"{"a": "\u12"}"#, "\u{fffd}12"),
            (r#"{"a": "\u+123"}"#, "\u{fffd}+123"),
            (r#"{"a": "it\'s \x"}"#, "it's x"),
            ("{\"a\": \"one\ntwo\u{0}\u{7f}\"}", "one\ntwo\u{0}\u{7f}"),
            (r#"{"a": "quoted \" and \\"}"#, "quoted \" and \\"),
        ];
        for (text, expected) in table {
            let value: Value = serde_json::from_str(&mended(text)).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(value["a"], expected, "{text}");
        }
        for text in ["", "\\", "\"\\", "\"\\u", "{\n \"a\" : 1 }", "\"\\ud83d\\u"] {
            let _ = mended(text);
        }
        assert_eq!(mended("{\n\t\"a\" : 1 }"), "{\n\t\"a\" : 1 }");
    }
}
