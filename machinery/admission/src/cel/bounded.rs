//! Functions whose results can be much larger than their arguments. The library does not bound them.

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, ResolveResult, Value,
    common::ast::{CallExpr, Expr},
    extractors::{Arguments, This},
};

use super::budget::{MAX_LENGTH, for_each_part};

/// Function that checks the numbers in a format.
const CHECK_FORMAT: &str = "@format";
/// Maximum number of digits of a precision in a format, such as `%.3f`.
const MAX_PRECISION_DIGITS: usize = 2;

/// Adds the functions to a context.
pub(crate) fn add_to(context: &mut Context<'_>) {
    context.add_function("replace", replace);
    context.add_function("join", join);
    context.add_function("lists.range", range);
    context.add_function(CHECK_FORMAT, check_format);
}

/// Makes each format pass [`CHECK_FORMAT`].
pub(crate) fn check_formats(expression: &mut IdedExpr) {
    for_each_part(expression, &mut check_formats);
    let id = expression.id;
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == "format"
        && let Some(format) = &mut call.target
    {
        let args = vec![std::mem::take(&mut **format)];
        format.expr = Expr::Call(CallExpr { func_name: CHECK_FORMAT.to_owned(), target: None, args });
        format.id = id;
    }
}

fn too_large(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, format!("the result has more than {MAX_LENGTH} bytes or items"))
}

fn text(value: Option<&Value>) -> Result<Arc<String>, ExecutionError> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// `TEXT.replace(OLD, NEW)` and `TEXT.replace(OLD, NEW, COUNT)`. A negative count means all, as upstream.
fn replace(This(this): This<Arc<String>>, Arguments(args): Arguments) -> ResolveResult {
    let (old, new) = (text(args.first())?, text(args.get(1))?);
    let count = match args.get(2) {
        None => usize::MAX,
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
        Some(_) => return Err(ExecutionError::NoSuchOverload),
    };
    let growth = new.len().saturating_sub(old.len());
    let found = if growth == 0 { 0 } else { this.matches(old.as_str()).take(count).count() };
    if found > 0 && found.saturating_mul(growth).saturating_add(this.len()) > MAX_LENGTH {
        return Err(too_large("replace"));
    }
    Ok(Value::String(Arc::new(this.replacen(old.as_str(), &new, count))))
}

/// `LIST.join()` and `LIST.join(SEPARATOR)`.
fn join(This(this): This<Arc<Vec<Value>>>, Arguments(args): Arguments) -> ResolveResult {
    let separator = if args.is_empty() { Arc::default() } else { text(args.first())? };
    let mut joined = String::new();
    for (index, item) in this.iter().enumerate() {
        let (between, item) = (if index == 0 { "" } else { separator.as_str() }, text(Some(item))?);
        if joined.len() + between.len() + item.len() > MAX_LENGTH {
            return Err(too_large("join"));
        }
        joined.push_str(between);
        joined.push_str(&item);
    }
    Ok(Value::String(Arc::new(joined)))
}

/// `lists.range(COUNT)`: the numbers below the count.
fn range(count: i64) -> ResolveResult {
    // A number takes about as much memory as sixteen characters.
    match usize::try_from(count) {
        Ok(length) if length <= MAX_LENGTH / 16 => {
            Ok(Value::List(Arc::new((0..count).map(Value::Int).collect())))
        }
        Ok(_) => Err(too_large("lists.range")),
        Err(_) => Err(ExecutionError::function_error("lists.range", "the count is negative")),
    }
}

/// Returns a format that writes no number with many digits.
fn check_format(format: Value) -> ResolveResult {
    if let Value::String(text) = &format {
        let precisions = text.split("%.").skip(1);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        if precisions.map(digits).any(|digits| digits > MAX_PRECISION_DIGITS) {
            let why = "a precision has more than two digits";
            return Err(ExecutionError::function_error("format", why));
        }
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use kube_cel::KubeCelExt;

    use super::{
        super::{Budget, Program, functions, stack::with_large_stack},
        *,
    };

    fn evaluate(source: &str) -> Result<Value, String> {
        let program = Program::compile(source);
        let evaluate = || {
            let (budget, mut context) = (Budget::new(), Context::default().with_all());
            functions::add_to(&mut context);
            add_to(&mut context);
            budget.add_to(&mut context);
            program.evaluate(&context, &budget)
        };
        with_large_stack(evaluate).flatten()
    }

    #[test]
    fn replaced_joined_and_formatted_texts_are_those_of_kubernetes() {
        for expression in [
            "'aaa'.replace('a', 'b') == 'bbb' && 'aaa'.replace('a', 'bc', 2) == 'bcbca'",
            "'aaa'.replace('a', '', -1) == '' && 'ab'.replace('', '-') == '-a-b-' && 'a'.replace('a', 'b', 0) == 'a'",
            "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && [].join('-') == ''",
            "lists.range(3) == [0, 1, 2] && lists.range(0) == []",
            "'%.3f %s'.format([1.5, 'a']) == '1.500 a'",
        ] {
            assert_eq!(evaluate(expression), Ok(Value::Bool(true)), "{expression}");
        }
    }

    #[test]
    fn no_function_makes_a_text_or_list_beyond_the_limit() {
        let replaced = format!("'a'{}", ".replace('a', 'aaaaaaaa')".repeat(30));
        let joined = format!("lists.range(60000).map(i, '{}').join()", "x".repeat(40));
        for (expression, expected) in [
            (replaced.as_str(), "replace"),
            (&joined, "join"),
            ("lists.range(1000000000000)", "lists.range"),
            ("lists.range(-1)", "negative"),
            ("'%.99999999999f'.format([1.0])", "more than two digits"),
            ("[1].join()", "No such overload"),
        ] {
            let error = evaluate(expression).unwrap_err();
            assert!(error.contains(expected), "{expression:.60}: {error}");
        }
    }

    #[test]
    fn an_expression_that_is_deep_cannot_overflow_the_stack() {
        let chain = |start: &str, more: &str, count: usize| format!("{start}{}", more.repeat(count));
        let most = |start: &str, more: &str| chain(start, more, (16 * 1024 - start.len()) / more.len());
        for expression in [
            most("1", "+1"),
            most("'a'", ".trim()"),
            most("[1]", ".map(x, x)"),
            most("a", ".a"),
            most("a", "[0]"),
            most("1", "<1"),
        ] {
            let error = evaluate(&expression).unwrap_err();
            assert!(error.contains("more than 250 levels"), "{expression:.40}");
        }
        assert_eq!(evaluate(&chain("1", "+1", 240)), Ok(Value::Int(241)));
        assert_eq!(evaluate(&chain("'a'", ".trim()", 240)), Ok(Value::from("a")));
        assert!(evaluate(&chain("[1]", ".map(x, x)", 100)).is_ok());
        assert!(evaluate(&most("true", " && true")).is_ok(), "the library balances conjunctions");
    }

    #[test]
    fn a_panic_of_the_library_is_an_error_of_the_expression() {
        let error = evaluate("quantity('1e40').isGreaterThan(quantity('1'))").unwrap_err();
        assert!(error.contains("the library of CEL panicked"), "{error}");
        assert_eq!(evaluate("1 + 1"), Ok(Value::Int(2)));
    }
}
