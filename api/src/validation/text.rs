//! Validation of names, reasons, messages and durations.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

/// Maximum length of a message, in bytes.
pub const MAX_MESSAGE_LENGTH: usize = 4096;
/// Maximum length of a reason, in bytes.
pub const MAX_REASON_LENGTH: usize = 128;
/// Maximum of a requested or registered delay, and of the time until a responder is asked again: 30 days in
/// seconds.
pub const MAX_DELAY_SECONDS: i64 = 30 * 24 * 3600;

/// Maximum length of a DNS subdomain, and of the part after the slash of a qualified name: the name of a node
/// fits.
const MAX_PART_LENGTH: usize = 253;

/// Collects the errors of one object.
#[derive(Default)]
pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    pub(super) fn add(&mut self, kind: FieldErrorKind, field: FieldPath, message: impl Into<String>) {
        self.0.push(FieldError { kind, field, message: message.into() });
    }

    pub(super) fn invalid(&mut self, field: FieldPath, message: impl Into<String>) {
        self.add(FieldErrorKind::Invalid, field, message);
    }

    /// Checks a domain-prefixed name.
    pub(super) fn qualified_name(&mut self, field: FieldPath, name: &str) {
        if name.is_empty() {
            self.add(FieldErrorKind::Required, field, "is required");
        } else if !is_qualified_name(name) {
            self.invalid(
                field,
                format!("{name:?} is not of the form DOMAIN/NAME, such as drain.example.com/node-a"),
            );
        }
    }

    /// Checks a reason, where given.
    pub(super) fn reason(&mut self, field: FieldPath, reason: Option<&str>) {
        let Some(reason) = reason else { return };
        if reason.len() > MAX_REASON_LENGTH {
            self.add(FieldErrorKind::TooLong, field, format!("must have at most {MAX_REASON_LENGTH} bytes"));
        } else if !is_camel_case(reason) {
            self.invalid(field, format!("{reason:?} is not in CamelCase, such as NodeMaintenance"));
        }
    }

    /// Checks a message, where given.
    pub(super) fn message(&mut self, field: FieldPath, message: Option<&str>) {
        let Some(message) = message else { return };
        if message.len() > MAX_MESSAGE_LENGTH {
            self.add(FieldErrorKind::TooLong, field, format!("must have at most {MAX_MESSAGE_LENGTH} bytes"));
        } else if message.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
            // Messages are shown in terminals.
            self.invalid(field, "must not hold control characters other than newline and tab");
        }
    }

    /// Checks a number, where given.
    pub(super) fn within(&mut self, field: FieldPath, value: Option<i64>, least: i64, most: i64) {
        if let Some(value) = value
            && !(least..=most).contains(&value)
        {
            self.invalid(field, format!("{value} is not between {least} and {most}"));
        }
    }
}

/// Returns true for a name of the form `DOMAIN/NAME`: a domain in lower case, such as `drain.example.com`, as
/// in the keys of labels, and up to 253 letters, digits, `-`, `_` and `.` that start and end with a letter or
/// digit.
pub fn is_qualified_name(name: &str) -> bool {
    let Some((domain, part)) = name.split_once('/') else {
        return false;
    };
    is_dns_subdomain(domain) && is_name_part(part)
}

/// Returns true for a DNS subdomain of RFC 1123, such as the name of a pod.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= MAX_PART_LENGTH && name.split('.').all(is_label)
}

/// Returns true for a DNS label of RFC 1123: at most 63 bytes, without a dot.
pub(super) fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_label(name)
}

fn is_label(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_name_part(part: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    part.len() <= MAX_PART_LENGTH
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && ends(part.chars().next())
        && ends(part.chars().next_back())
}

fn is_camel_case(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_name_has_a_domain_and_one_plain_part() {
        let node = format!("drain.evacuation.dev/{}", "n".repeat(253));
        for good in ["drain.evacuation.dev/node-a", "a.b/C_d.e", "a/b", node.as_str()] {
            assert!(is_qualified_name(good), "{good}");
        }
        let long = format!("{node}n");
        for bad in [
            "", "self", "/x", "a.b/", "A.b/c", "a..b/c", "-a.b/c", "a.b/c/d", "a.b/c d", "a.b/-c", "a.b/c-",
            &long,
        ] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_reason_is_camel_case() {
        for (reason, good) in [
            ("NodeMaintenance", true),
            ("X1", true),
            ("node", false),
            ("Node-Down", false),
            ("", false),
            ("Ä", false),
        ] {
            assert_eq!(is_camel_case(reason), good, "{reason}");
        }
    }

    #[test]
    fn a_message_may_span_lines_but_cannot_steer_a_terminal() {
        for (message, good) in
            [("two\nlines\tand a tab", true), ("\u{1b}[2J", false), ("bell\u{7}", false), ("", true)]
        {
            let mut errors = Errors::default();
            errors.message(FieldPath::new("message"), Some(message));
            assert_eq!(errors.0.is_empty(), good, "{message:?}");
        }
        let mut errors = Errors::default();
        errors.message(FieldPath::new("message"), Some(&"x".repeat(MAX_MESSAGE_LENGTH + 1)));
        assert_eq!(errors.0[0].kind, FieldErrorKind::TooLong);
    }
}
