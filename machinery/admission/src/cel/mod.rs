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
    budget::Budget,
    conditions::Conditions,
    environment::Environment,
    evaluator::Evaluator,
    program::Program,
    value::{map, to_cel},
};
