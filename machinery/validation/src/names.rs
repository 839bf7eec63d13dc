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
