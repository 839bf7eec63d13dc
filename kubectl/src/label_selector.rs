//! Label selectors in kubectl's grammar, as a spec holds them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Reads a selector such as `app=db,tier in (a, b),!canary`.
///
/// The grammar is that of `k8s.io/apimachinery/pkg/labels`, without `>` and `<`, which a LabelSelector cannot
/// hold. The server checks keys and values.
///
/// # Errors
///
/// The text is not such a selector, or is empty.
pub(crate) fn parse(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in requirements(text) {
        let part = part.trim();
        let (key, operator, values) = requirement(part).ok_or_else(|| explain(part))?;
        let well_formed = |word: &str| !word.contains(|c: char| c.is_whitespace() || "=!,()<>".contains(c));
        if key.is_empty() || !well_formed(&key) || !values.iter().flatten().all(|value| well_formed(value)) {
            return Err(explain(part));
        }
        let operator = operator.to_owned();
        let requirement = LabelSelectorRequirement { key, operator, values };
        selector.match_expressions.get_or_insert_default().push(requirement);
    }
    Ok(selector)
}

/// Returns a selector in that grammar.
pub(crate) fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|requirement| {
        let LabelSelectorRequirement { key, operator, values } = requirement;
        let values = values.as_deref().unwrap_or_default();
        match (operator.as_str(), values) {
            ("Exists", _) => key.clone(),
            ("DoesNotExist", _) => format!("!{key}"),
            ("In", [value]) => format!("{key}={value}"),
            ("NotIn", [value]) => format!("{key}!={value}"),
            _ => format!("{key} {} ({})", operator.to_lowercase(), values.join(",")),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

fn explain(part: &str) -> String {
    format!("{part:?} is not a requirement such as app=db, tier in (a,b) or !canary")
}

/// Splits at the commas outside of parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let at_comma = |c: char| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(at_comma).collect()
}

/// Returns key, operator and values of one requirement.
fn requirement(part: &str) -> Option<(String, &'static str, Option<Vec<String>>)> {
    let owned = |text: &str| text.trim().to_owned();
    if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(')?;
        let (key, word) = head.trim().rsplit_once(char::is_whitespace)?;
        let operator = match word {
            "in" => "In",
            "notin" => "NotIn",
            _ => return None,
        };
        return Some((owned(key), operator, Some(list.split(',').map(owned).collect())));
    }
    let mut pairs = [("!=", "NotIn"), ("==", "In"), ("=", "In")].into_iter();
    let found = pairs.find_map(|(sign, operator)| Some((part.split_once(sign)?, operator)));
    if let Some(((key, value), operator)) = found {
        return Some((owned(key), operator, Some(vec![owned(value)])));
    }
    match part.strip_prefix('!') {
        Some(key) => Some((owned(key), "DoesNotExist", None)),
        None => Some((owned(part), "Exists", None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(String, String, Vec<String>)>> {
        let all = parse(text).ok()?.match_expressions.unwrap_or_default();
        Some(all.into_iter().map(|r| (r.key, r.operator, r.values.unwrap_or_default())).collect())
    }

    #[test]
    fn a_selector_is_read_as_kubectl_reads_it() {
        for (text, expected) in [
            ("app=db", vec![("app", "In", vec!["db"])]),
            ("app == db", vec![("app", "In", vec!["db"])]),
            ("app!=db", vec![("app", "NotIn", vec!["db"])]),
            ("app=", vec![("app", "In", vec![""])]),
            ("app", vec![("app", "Exists", vec![])]),
            ("!app", vec![("app", "DoesNotExist", vec![])]),
            ("tier in (a, b)", vec![("tier", "In", vec!["a", "b"])]),
            (
                "acme.io/tier notin (a),x=y, !z",
                vec![
                    ("acme.io/tier", "NotIn", vec!["a"]),
                    ("x", "In", vec!["y"]),
                    ("z", "DoesNotExist", vec![]),
                ],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(key, operator, values)| {
                    (key.to_owned(), operator.to_owned(), values.into_iter().map(str::to_owned).collect())
                })
                .collect();
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_bad_selector_is_explained() {
        for text in ["", "a=b,", "=b", "a>1", "a like (b)", "a in b)", "a in ((b)", "a b", "a=b=c"] {
            assert!(parse(text).is_err(), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn a_selector_is_told_in_the_grammar_in_which_it_is_read() {
        for text_of in ["app=db,tier in (a,b)", "app!=db,!canary,zone", "tier notin (a,b)"] {
            assert_eq!(text(&parse(text_of).unwrap()), text_of);
        }
        let labels = LabelSelector {
            match_labels: Some([("app".to_owned(), "db".to_owned())].into()),
            match_expressions: None,
        };
        assert_eq!(text(&labels), "app=db");
    }
}
