//! Texts as Go's libraries write them, which clients of Kubernetes see in messages and in FieldsV1.

use std::fmt::Write;

use serde_json::Value;

use crate::value::{float, integer};

/// Choices of the two JSON encoders that Kubernetes uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// Those that JSON needs: the keys of json-iterator.
    Plain,
    /// Those, and the characters that HTML and JavaScript treat specially: the values of json-iterator.
    Html,
    /// `encoding/json`, which also has short escapes of its own and exponents of one digit.
    Standard,
}

/// Writes a text in quotes as JSON. Infallible: the target is a `String`.
pub(crate) fn write_json_text(out: &mut String, text: &str, escapes: Escapes) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' if escapes == Escapes::Standard => out.push_str("\\b"),
            '\x0c' if escapes == Escapes::Standard => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escapes != Escapes::Plain => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Writes a value as JSON with sorted fields.
pub(crate) fn write_json(out: &mut String, value: &Value, escapes: Escapes) {
    match value {
        Value::Number(number) => {
            let text =
                integer(number).map_or_else(|| json_float(float(number)), |integer| integer.to_string());
            let short = if escapes == Escapes::Standard { text.replace("e-0", "e-") } else { text };
            out.push_str(&short);
        }
        Value::String(text) => write_json_text(out, text, escapes),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(out, item, escapes);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, field)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_text(out, name, escapes);
                out.push(':');
                write_json(out, field, escapes);
            }
            out.push('}');
        }
        Value::Bool(_) | Value::Null => {
            let _ = write!(out, "{value}");
        }
    }
}

fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) { exponent(number) } else { number.to_string() }
}

/// Writes a number with an exponent of at least two digits and its sign, such as `1e+21`.
fn exponent(number: f64) -> String {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Writes a value as messages name it: the verb `%v`, and `%q` for texts.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::Number(number) => {
            integer(number).map_or_else(|| display_float(float(number)), |it| it.to_string())
        }
        Value::String(text) => quote(text),
        Value::Bool(_) | Value::Null => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(display).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            fields.iter().fold(String::new(), |text, (name, field)| text + name + "=" + &display(field))
        }
    }
}

fn display_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) { exponent(number) } else { number.to_string() }
}

/// Writes a text in quotes as Go source: the verb `%q`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Returns whether a character is a letter, mark, number, punctuation, symbol or the ASCII space.
pub(crate) fn is_printable(character: char) -> bool {
    // The standard library escapes what is not printable, and marks only where a text begins with one.
    let mut pair = String::from("x");
    pair.push(character);
    matches!(character, '"' | '\'' | '\\') || pair.escape_debug().eq(pair.chars())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quoted_texts_are_those_of_go() {
        let cases = [
            ("plain ü 界 e\u{301}", "\"plain ü 界 e\u{301}\""),
            ("\"\\'", r#""\"\\'""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\x00\x7f\u{a0}\u{200b}\u{e0001}", r#""\x00\x7f\u00a0\u200b\U000e0001""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quote(text), expected);
        }
    }

    #[test]
    fn numbers_are_those_of_go() {
        let cases = [
            (json!(80), "80", "80"),
            (json!(80.0), "80", "80"),
            (json!(1.5), "1.5", "1.5"),
            (json!(123_456.0), "123456", "123456"),
            (json!(1_234_567.0), "1234567", "1.234567e+06"),
            (json!(1e22), "1e+22", "1e+22"),
            (json!(1.25e-7), "1.25e-07", "1.25e-07"),
            (json!(0.00001), "0.00001", "1e-05"),
            (json!(u64::MAX), "18446744073709552000", "1.8446744073709552e+19"),
        ];
        for (number, as_json, as_text) in cases {
            let mut out = String::new();
            write_json(&mut out, &number, Escapes::Html);
            assert_eq!(out, as_json);
            assert_eq!(display(&number), as_text);
        }
    }
}
