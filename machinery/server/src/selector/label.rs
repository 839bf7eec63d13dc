//! Label selectors. Source of the grammar: `k8s.io/apimachinery/pkg/labels/selector.go`.

use std::collections::BTreeSet;

use machinery_validation::{label_key, label_value};

/// Label selector. Without requirements it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Reads a selector such as `app=db,tier in (a, b),!canary`.
    ///
    /// # Errors
    ///
    /// The problem, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text);
        let mut rest = tokens.as_slice();
        let mut requirements = Vec::new();
        while !rest.is_empty() {
            requirements.push(requirement(&mut rest)?);
            match rest {
                [] => break,
                [",", more @ ..] if !more.is_empty() => rest = more,
                [found, ..] => {
                    return Err(format!(
                        "found {found:?}, expected: ',' and another requirement, or the end"
                    ));
                }
            }
        }
        Ok(Self(requirements))
    }

    /// Returns the text with a space between all tokens.
    pub(crate) fn spaced(text: &str) -> String {
        tokens(text).join(" ")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true when an object matches; `label` returns the value of one of its labels.
    pub(crate) fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                // As in Kubernetes, an object without the label matches.
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::GreaterThan(bound) => number(value).is_some_and(|value| value > *bound),
                Operator::LessThan(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value.and_then(|value| value.parse().ok())
}

/// Splits the text into words and the signs `= == != ! , ( ) > <`.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| !c.is_whitespace() && !"=!,()<>".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    !token.starts_with(['=', '!', ',', '(', ')', '<', '>'])
}

fn requirement<'a>(rest: &mut &'a [&'a str]) -> Result<Requirement, String> {
    let (key, operator, after) = match *rest {
        ["!", key, after @ ..] if is_word(key) => (*key, Operator::DoesNotExist, after),
        [key, "in", "(", after @ ..] if is_word(key) => {
            let (values, after) = values(after)?;
            (*key, Operator::In(values), after)
        }
        [key, "notin", "(", after @ ..] if is_word(key) => {
            let (values, after) = values(after)?;
            (*key, Operator::NotIn(values), after)
        }
        [key, sign @ ("=" | "==" | "!="), after @ ..] if is_word(key) => {
            // A value may be missing: `app=` selects the empty one.
            let (value, after) = match after {
                [value, after @ ..] if is_word(value) => (*value, after),
                after => ("", after),
            };
            check_value(value)?;
            let values = BTreeSet::from([value.to_owned()]);
            (*key, if *sign == "!=" { Operator::NotIn(values) } else { Operator::In(values) }, after)
        }
        [key, sign @ (">" | "<"), bound, after @ ..] if is_word(key) && is_word(bound) => {
            let number = bound
                .parse()
                .map_err(|_| format!("{bound:?}: for 'Gt', 'Lt' operators, the value must be an integer"))?;
            (
                *key,
                if *sign == ">" { Operator::GreaterThan(number) } else { Operator::LessThan(number) },
                after,
            )
        }
        [key, after @ ..] if is_word(key) && matches!(after, [] | [",", ..]) => {
            (*key, Operator::Exists, after)
        }
        [found, ..] => {
            return Err(format!("found {found:?}, expected: a requirement such as key=value"));
        }
        [] => return Err("found the end, expected: a requirement such as key=value".to_owned()),
    };
    if let Some(problem) = label_key(key).into_iter().next() {
        return Err(format!("key: Invalid value: {key:?}: {problem}"));
    }
    *rest = after;
    Ok(Requirement { key: key.to_owned(), operator })
}

/// Returns the values up to the closing parenthesis, and the rest.
fn values<'a>(tokens: &'a [&'a str]) -> Result<(BTreeSet<String>, &'a [&'a str]), String> {
    let end = tokens.iter().position(|token| *token == ")").ok_or("found the end, expected: ')'")?;
    let (inside, after) = tokens.split_at(end);
    let mut values = BTreeSet::new();
    for part in inside.split(|token| *token == ",") {
        match part {
            [] => values.insert(String::new()),
            [value] if is_word(value) => {
                check_value(value)?;
                values.insert((*value).to_owned())
            }
            other => {
                return Err(format!("found {:?}, expected: values separated by ','", other.join(" ")));
            }
        };
    }
    Ok((values, after.get(1..).unwrap_or_default()))
}

fn check_value(value: &str) -> Result<(), String> {
    match label_value(value).into_iter().next() {
        Some(problem) => Err(format!("values: Invalid value: {value:?}: {problem}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn labels_are_selected_as_kubernetes_selects_them() {
        let labels = HashMap::from([("app", "db"), ("size", "7"), ("acme.io/x", "")]);
        let cases = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("other", false),
            ("!other", true),
            ("app=db", true),
            ("app==db", true),
            (" app = db , size = 7 ", true),
            ("app=web", false),
            ("app!=web", true),
            ("other!=x", true),
            ("app in (db, web)", true),
            ("app in (web)", false),
            ("app notin (web)", true),
            ("other notin (web)", true),
            ("other in ()", false),
            ("acme.io/x=", true),
            ("acme.io/x in (,a)", true),
            ("size>6", true),
            ("size<6", false),
            ("app>1", false),
            ("app=db,size=8", false),
        ];
        for (text, matches) in cases {
            let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(|key| labels.get(key).copied()), matches, "{text}");
        }
        assert!(LabelSelector::parse("!a").expect("good").matches(|_| None));
    }

    #[test]
    fn a_text_that_is_no_selector_is_refused() {
        for text in [
            ",",
            "a,",
            "a b",
            "=a",
            "a=b=c",
            "a in b",
            "a in (b",
            "a in (b c)",
            "-a",
            "a=b!",
            "a=-",
            "a>b",
            "!",
            "a,,b",
            "a()",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
