//! Field selectors. Source of the grammar: `k8s.io/apimachinery/pkg/fields/selector.go`.

/// Field selector. Without requirements it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads a selector such as `metadata.name=a,spec.x!=b`; in values `\`, `,` and `=` are escaped by `\`.
    ///
    /// # Errors
    ///
    /// The problem, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            let (field, equal, value) = operator(term)
                .ok_or_else(|| format!("invalid selector: {text:?}; can't understand {term:?}"))?;
            let value =
                unescape(value).ok_or_else(|| format!("invalid field selector: the value of {term:?}"))?;
            requirements.push(Requirement { field: field.trim().to_owned(), equal, value });
        }
        Ok(Self(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields that it selects by.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| requirement.field.as_str())
    }

    /// Returns the only value of that field that matches, if there is only one.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }

    /// Returns true when an object with these values of the fields matches.
    pub(crate) fn matches(&self, value: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|requirement| (value(&requirement.field) == requirement.value) == requirement.equal)
    }
}

/// Splits at commas that are not escaped; empty parts are left out.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.extend(text.get(start..));
    terms.retain(|term| !term.is_empty());
    terms
}

/// Returns the field, true for equality and false for inequality, and the value as written.
fn operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    if field.trim().is_empty() {
        return None;
    }
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, true, value))
}

/// Returns the value without its escapes; `None` when a special character is not escaped or an escape is
/// unknown.
fn unescape(value: &str) -> Option<String> {
    let mut result = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                special @ ('\\' | ',' | '=') => result.push(special),
                _ => return None,
            },
            ',' | '=' => return None,
            other => result.push(other),
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_selected_as_kubernetes_selects_them() {
        let value = |field: &str| match field {
            "metadata.name" => "a".to_owned(),
            "spec.odd" => r"x,y=z\".to_owned(),
            _ => String::new(),
        };
        let cases = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            ("metadata.name=b", false),
            ("metadata.name=a,spec.none=", true),
            ("metadata.name=a,,", true),
            (r"spec.odd=x\,y\=z\\", true),
            (r"spec.odd!=x\,y\=z\\,metadata.name=a", false),
        ];
        for (text, matches) in cases {
            let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(value), matches, "{text}");
        }
        assert_eq!(FieldSelector::parse("metadata.name=a").expect("good").exact("metadata.name"), Some("a"));
        assert_eq!(FieldSelector::parse("metadata.name!=a").expect("good").exact("metadata.name"), None);
    }

    #[test]
    fn a_text_that_is_no_selector_is_refused() {
        for text in ["a", "=a", "!=a", "a!b", r"a=b\c", r"a=b\", "a=b=c"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }
}
