//! Single names. Source of the rules: `k8s.io/apimachinery/pkg/api/validate/content`.

const LABEL_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
     is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', \
     '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the error of a DNS label such as a namespace's name.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LABEL_LENGTH {
        problems.push(too_long(LABEL_LENGTH));
    }
    if !is_label(value) {
        problems.push(LABEL_MESSAGE.to_owned());
    }
    problems
}

/// Returns the error of a DNS subdomain such as an object's name.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        // As upstream, where the other names count bytes.
        problems.push(format!("must be no more than {SUBDOMAIN_LENGTH} characters"));
    }
    if !value.split('.').all(is_label) {
        problems.push(SUBDOMAIN_MESSAGE.to_owned());
    }
    problems
}

/// Returns a name that is derived from that of an object: it, and then `end`. The object's name is cut where
/// the result would be too long, and after a cut it ends with a letter or digit.
///
/// `end` begins with `-` or `.`. It may end with `-`, for a `metadata.generateName`.
pub fn derived_name(name: &str, end: &str) -> String {
    let cut = name.floor_char_boundary(SUBDOMAIN_LENGTH.saturating_sub(end.len()));
    let begin = name.get(..cut).unwrap_or(name).trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{begin}{end}")
}

/// Returns the error of a `metadata.generateName`, which may end with `-`: so it can be one byte longer than
/// a name. The server cuts it before it adds characters.
pub fn generate_name(value: &str) -> Vec<String> {
    match value.strip_suffix('-').filter(|rest| !rest.is_empty()) {
        // As upstream, which replaces the dash and what is before it.
        Some(rest) => {
            let last = rest.char_indices().next_back().map_or(0, |(at, _)| at);
            dns1123_subdomain(&format!("{}a", rest.get(..last).unwrap_or_default()))
        }
        None => dns1123_subdomain(value),
    }
}

/// Returns the error of a qualified name such as `acme.io/failover` or `failover`: the form of finalizers and
/// label keys.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {NAME_PART_MESSAGE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    dns1123_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH {
        problems.push(format!("name part {}", too_long(LABEL_LENGTH)));
    }
    if !is_name_part(name) {
        problems.push(format!("name part {NAME_PART_MESSAGE}"));
    }
    problems
}

/// Returns the error of a label's key.
pub fn label_key(value: &str) -> Vec<String> {
    qualified_name(value)
}

/// Returns the error of a label's value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LABEL_LENGTH {
        problems.push(too_long(LABEL_LENGTH));
    }
    if !value.is_empty() && !is_name_part(value) {
        problems.push(LABEL_VALUE_MESSAGE.to_owned());
    }
    problems
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn is_label(value: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_word(value, edge, |byte| edge(byte) || *byte == b'-')
}

fn is_name_part(value: &str) -> bool {
    is_word(value, u8::is_ascii_alphanumeric, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// True if a text has characters of that kind at both ends, and of this kind between them.
fn is_word(value: &str, edge: impl Fn(&u8) -> bool, inner: impl Fn(&u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(&edge) && bytes.last().is_some_and(&edge) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_name_may_end_with_a_dash_and_be_a_byte_longer() {
        let (most, more) = (format!("{}-", "a".repeat(253)), format!("{}-", "a".repeat(254)));
        let cases = [
            ("a", true),
            ("a-", true),
            ("a.b--", true),
            (most.as_str(), true),
            (more.as_str(), false),
            (&most[..253], true),
            (&more[..254], false),
            ("-", false),
            ("-a", false),
            ("a.", false),
            ("Ab-", false),
            // As upstream: the name that is made of it is refused.
            ("A-", true),
        ];
        for (value, legal) in cases {
            assert_eq!(generate_name(value).is_empty(), legal, "{value}");
        }
    }

    #[test]
    fn a_name_that_is_derived_from_a_legal_one_is_legal() {
        let texts = ["a".repeat(253), "a.".repeat(127), "a--.b-".repeat(50), "0-".repeat(127)];
        let begin = |text: &str, length: usize| text[..length].trim_end_matches(['.', '-']).to_owned();
        for text in &texts {
            for name in (1..=253.min(text.len())).map(|length| begin(text, length)) {
                if !dns1123_subdomain(&name).is_empty() {
                    continue;
                }
                for end in ["-01234567", ".64f0c0ffee.2a", "-", "-test-"] {
                    let derived = derived_name(&name, end);
                    assert!(derived.ends_with(end) && derived.len() <= 253, "{derived}");
                    let fits = name.len() + end.len() <= 253;
                    assert!(!fits || derived == format!("{name}{end}"), "{derived}");
                    let problems = if end.ends_with('-') {
                        generate_name(&derived)
                    } else {
                        dns1123_subdomain(&derived)
                    };
                    assert!(problems.is_empty(), "{derived}: {problems:?}");
                }
            }
        }
        assert_eq!(derived_name(&"ü".repeat(200), "-x"), "-x");
    }

    #[test]
    fn names_are_judged_as_kubernetes_judges_them() {
        type Rule = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let very_long = "a".repeat(254);
        let cases: Vec<(Rule, &str, bool)> = vec![
            (dns1123_label, "a", true),
            (dns1123_label, "a-1", true),
            (dns1123_label, "", false),
            (dns1123_label, "A", false),
            (dns1123_label, "-a", false),
            (dns1123_label, "a-", false),
            (dns1123_label, "a.b", false),
            (dns1123_label, &long, false),
            (dns1123_subdomain, "a.b-c.1", true),
            (dns1123_subdomain, "a..b", false),
            (dns1123_subdomain, "a.", false),
            (dns1123_subdomain, "a_b", false),
            (dns1123_subdomain, "", false),
            (dns1123_subdomain, &very_long, false),
            (qualified_name, "simple", true),
            (qualified_name, "Acme_1.x", true),
            (qualified_name, "acme.io/failover", true),
            (qualified_name, "/failover", false),
            (qualified_name, "acme.io/", false),
            (qualified_name, "ACME.io/failover", false),
            (qualified_name, "a/b/c", false),
            (qualified_name, "", false),
            (qualified_name, &long, false),
            (label_value, "", true),
            (label_value, "My_value.1", true),
            (label_value, "-x", false),
            (label_value, "a b", false),
            (label_value, &long, false),
        ];
        for (rule, value, good) in cases {
            assert_eq!(rule(value).is_empty(), good, "{value:?}: {:?}", rule(value));
        }
    }
}
