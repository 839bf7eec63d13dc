//! Names of nodes on the command line.

/// Returns a node's name, which may be given as node/NAME.
pub(crate) fn node_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some(("node" | "nodes" | "no", name)) => name,
        Some((resource, _)) => return Err(format!("only nodes can be drained, not {resource}")),
    };
    if name.is_empty() { Err("the name of the node is missing".to_owned()) } else { Ok(name.to_owned()) }
}
