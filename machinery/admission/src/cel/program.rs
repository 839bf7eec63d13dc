//! Compiled expressions.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use kube_cel::cel::{Context, IdedExpr, Value, common::ast::Expr, parser::Parser};

use super::{
    authorizer::REQUEST_RESOURCE,
    bounded::check_formats,
    budget::{Budget, for_each_part, meter},
    functions::replace_optional_selects,
    stack::{check_levels, with_large_stack},
};

/// Maximum length of an expression, in bytes.
const MAX_SOURCE: usize = 16 * 1024;
/// Maximum depth of an expression.
const MAX_DEPTH: u16 = 64;
/// Variable that holds the variables of a policy.
const VARIABLES: &str = "variables";

/// A compiled expression.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    source: String,
    expression: Result<IdedExpr, String>,
    /// Variables of the policy that it names.
    variables: BTreeSet<String>,
}

impl Program {
    /// Compiles an expression. An error shows when it is evaluated.
    pub(crate) fn compile(source: &str) -> Self {
        let mut variables = BTreeSet::new();
        let compiled = with_large_stack(|| {
            let mut expression = parse(source)?;
            collect_variables(&mut expression, &mut variables);
            replace_request_resource(&mut expression);
            replace_optional_selects(&mut expression);
            check_formats(&mut expression);
            meter(&mut expression);
            Ok(expression)
        });
        Self { source: source.to_owned(), expression: compiled.flatten(), variables }
    }

    /// Returns the text of the expression.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the variables of the policy that it names.
    pub(crate) fn variables(&self) -> &BTreeSet<String> {
        &self.variables
    }

    /// Evaluates the expression. The caller is on a large stack.
    ///
    /// # Errors
    ///
    /// Reason that there is no result, in words for the caller.
    pub(crate) fn evaluate(&self, context: &Context<'_>, budget: &Budget) -> Result<Value, String> {
        let failed = |why: &str| format!("expression '{}' resulted in error: {why}", self.source.trim());
        let expression =
            self.expression.as_ref().map_err(|why| failed(&format!("compilation failed: {why}")))?;
        if budget.is_exhausted() {
            return Err(failed("validation failed due to running out of cost budget"));
        }
        // The library panics on some expressions, for example where a time overflows.
        let result = catch_unwind(AssertUnwindSafe(|| Value::resolve(expression, context)))
            .map_err(|_| failed("the library of CEL panicked"))?;
        if budget.is_exhausted() {
            return Err(failed("operation cancelled: actual cost limit exceeded"));
        }
        result.map_err(|error| failed(&error.to_string()))
    }

    /// Evaluates the expression, which must be true or false.
    pub(crate) fn evaluate_bool(&self, context: &Context<'_>, budget: &Budget) -> Result<bool, String> {
        match self.evaluate(context, budget)? {
            Value::Bool(value) => Ok(value),
            _ => Err(format!("expression '{}' resulted in no bool", self.source.trim())),
        }
    }
}

fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("the expression has more than {MAX_SOURCE} bytes"));
    }
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(MAX_DEPTH);
    let mut expression = parser.parse(source).map_err(|error| error.to_string())?;
    check_levels(&mut expression)?;
    // The library panics when it evaluates one.
    if has_unsupported(&mut expression) {
        return Err("construction of typed objects is not supported".to_owned());
    }
    Ok(expression)
}

fn has_unsupported(expression: &mut IdedExpr) -> bool {
    if matches!(expression.expr, Expr::Struct(_) | Expr::Unspecified) {
        return true;
    }
    let mut found = false;
    for_each_part(expression, &mut |part| found |= has_unsupported(part));
    found
}

fn collect_variables(expression: &mut IdedExpr, variables: &mut BTreeSet<String>) {
    if let Expr::Select(select) = &expression.expr
        && select.operand.expr == Expr::Ident(VARIABLES.to_owned())
    {
        variables.insert(select.field.clone());
    }
    for_each_part(expression, &mut |part| collect_variables(part, variables));
}

/// Replaces `authorizer.requestResource` by a variable: the library selects no field of an opaque value.
fn replace_request_resource(expression: &mut IdedExpr) {
    for_each_part(expression, &mut replace_request_resource);
    if let Expr::Select(select) = &expression.expr
        && select.operand.expr == Expr::Ident("authorizer".to_owned())
        && select.field == "requestResource"
    {
        expression.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
    }
}
