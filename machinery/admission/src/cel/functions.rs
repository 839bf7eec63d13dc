//! Functions of CEL that the library lacks, or that differ from those of kube-apiserver.

use std::sync::Arc;

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, Value,
    common::ast::{Expr, LiteralValue, operators},
    extractors::This,
    objects::{Key, OptionalValue},
};

use super::budget::for_each_part;

/// Selection of a field that can be absent: `object.?spec`.
const OPTIONAL_SELECT: &str = "@optional";

/// Adds the functions to a context.
pub(crate) fn add_to(context: &mut Context<'_>) {
    context.add_function("dyn", |value: Value| -> Result<Value, ExecutionError> { Ok(value) });
    context.add_function("size", size);
    context.add_function(OPTIONAL_SELECT, optional_select);
}

/// The length of a text is in characters. The library counts bytes.
fn size(This(value): This<Value>) -> Result<i64, ExecutionError> {
    let length = match &value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    i64::try_from(length).map_err(|error| ExecutionError::function_error("size", error))
}

#[expect(clippy::needless_pass_by_value, reason = "the library passes arguments by value")]
fn optional_select(value: Value, field: Value) -> Result<Value, ExecutionError> {
    let none = || Value::Opaque(Arc::new(OptionalValue::none()));
    let value = match &value {
        Value::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => match optional.value() {
                Some(value) => value.clone(),
                None => return Ok(none()),
            },
            None => return Err(ExecutionError::NoSuchOverload),
        },
        value => value.clone(),
    };
    let found = match (&value, field) {
        (Value::Map(map), Value::String(field)) => map.map.get(&Key::String(field)).cloned(),
        (Value::Null, _) => None,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(found.map_or_else(none, |found| Value::Opaque(Arc::new(OptionalValue::of(found)))))
}

/// Makes optional selections use [`OPTIONAL_SELECT`].
pub(crate) fn replace_optional_selects(expression: &mut IdedExpr) {
    for_each_part(expression, &mut replace_optional_selects);
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == operators::OPT_SELECT
        && let [_, field] = call.args.as_mut_slice()
    {
        OPTIONAL_SELECT.clone_into(&mut call.func_name);
        if let Expr::Ident(name) = &field.expr {
            field.expr = Expr::Literal(LiteralValue::String(name.clone().into()));
        }
    }
}
