//! Expressions in CEL, within bounds, with the functions and variables that Kubernetes has.

mod authorizer;
mod bounded;
mod budget;
mod conditions;
mod environment;
mod evaluator;
mod functions;
mod program;
mod stack;
mod value;

pub(crate) use self::{
    authorizer::Authz,
    budget::{Budget, MAX_LENGTH},
    conditions::Conditions,
    environment::Environment,
    evaluator::Evaluator,
    program::Program,
    stack::with_large_stack,
    value::{map, to_cel},
};
