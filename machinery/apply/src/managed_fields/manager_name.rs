//! Names of managers.

use crate::go_text::is_printable;

/// Maximum length of a manager's name in bytes.
pub const MAX_MANAGER_BYTES: usize = 128;

/// Reason for which a manager's name is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerNameError {
    /// The name is longer than [`MAX_MANAGER_BYTES`].
    #[error("may not be more than {MAX_MANAGER_BYTES} bytes")]
    TooLong,
    /// The name has a character that cannot be printed.
    #[error("invalid character U+{:04X} (at position {position})", u32::from(*character))]
    Unprintable {
        /// The character.
        character: char,
        /// Its first byte in the name, from 0.
        position: usize,
    },
}

/// Checks the parameter `fieldManager`. Returns every error. The empty name is valid: it means that there is
/// none.
pub fn validate_manager(name: &str) -> Vec<ManagerNameError> {
    let long = (name.len() > MAX_MANAGER_BYTES).then_some(ManagerNameError::TooLong);
    let unprintable = name.char_indices().filter(|(_, character)| !is_printable(*character));
    let unprintable =
        unprintable.map(|(position, character)| ManagerNameError::Unprintable { character, position });
    long.into_iter().chain(unprintable).collect()
}

/// Returns the manager of a request without `fieldManager`: the product of its user agent, which is the part
/// before the first slash, without characters that cannot be printed, and cut at [`MAX_MANAGER_BYTES`].
pub fn manager_from_user_agent(user_agent: &str) -> String {
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in product.chars().filter(|character| is_printable(*character)) {
        if name.len() + character.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        name.push(character);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_printable() {
        assert_eq!(validate_manager(""), []);
        assert_eq!(validate_manager("kubectl edit ü"), []);
        assert_eq!(validate_manager(&"x".repeat(129)), [ManagerNameError::TooLong]);
        let errors = validate_manager("a\nü\u{200b}");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["invalid character U+000A (at position 1)", "invalid character U+200B (at position 4)"]
        );
    }

    #[test]
    fn the_user_agent_names_the_manager() {
        assert_eq!(manager_from_user_agent("kubectl/v1.37.1 (linux/amd64)"), "kubectl");
        assert_eq!(manager_from_user_agent("Mozilla"), "Mozilla");
        assert_eq!(manager_from_user_agent("a\u{0}b\n/x"), "ab");
        assert_eq!(manager_from_user_agent(""), "");
        let long = format!("{}ü", "x".repeat(127));
        assert_eq!(manager_from_user_agent(&long), "x".repeat(127), "no character is cut");
    }
}
