//! Names of pods on the command line.

/// Returns a pod's name, which may be given as pod/NAME.
pub(crate) fn pod_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("pod" | "pods" | "po", name)) => Ok(name.to_owned()),
        Some((resource, _)) => Err(format!("only pods can be asked, not {resource}")),
    }
}
