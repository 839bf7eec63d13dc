//! Room for deep recursion.
//!
//! The library parses, evaluates and drops an expression by recursion, and limits only the depth of
//! parentheses: a sum of 3,000 numbers overflows the stack of 2 MiB that threads have otherwise, which ends
//! the process.

use std::thread;

use kube_cel::cel::IdedExpr;

use super::budget::for_each_part;

/// Size of the stack. Only the part that a recursion reaches takes memory.
const STACK: usize = 256 * 1024 * 1024;
/// Maximum number of expressions in each other.
const MAX_LEVELS: usize = 250;

/// Runs a function on a thread with a large stack.
///
/// # Errors
///
/// There is no thread, or the function panicked.
pub(crate) fn with_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let started =
            thread::Builder::new().name("cel".to_owned()).stack_size(STACK).spawn_scoped(scope, run);
        let started = started.map_err(|error| format!("no thread for the expression: {error}"))?;
        started.join().map_err(|_| "the library of CEL panicked".to_owned())
    })
}

/// Fails when too many expressions are in each other.
pub(super) fn check_levels(expression: &mut IdedExpr) -> Result<(), String> {
    if has_more_levels(expression, MAX_LEVELS) {
        return Err(format!("the expression has more than {MAX_LEVELS} levels"));
    }
    Ok(())
}

fn has_more_levels(expression: &mut IdedExpr, most: usize) -> bool {
    let Some(left) = most.checked_sub(1) else { return true };
    let mut more = false;
    for_each_part(expression, &mut |part| more = more || has_more_levels(part, left));
    more
}
