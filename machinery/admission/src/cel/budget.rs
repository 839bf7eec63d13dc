//! Budget of an evaluation.
//!
//! The library has no limit on the work of an evaluation. So each step of a loop in an expression is made to
//! call the function [`SPEND`], and the result of each addition and of each function passes [`SIZED`]. Once
//! the budget is used up each of them fails at once, so that all loops end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use kube_cel::cel::{
    Context, ExecutionError, IdedExpr, Value,
    common::ast::{CallExpr, EntryExpr, Expr, operators},
};

/// Function that pays for a step of a loop.
const SPEND: &str = "@spend";
/// Function that checks the size of the result of an addition.
const SIZED: &str = "@sized";

/// Maximum number of steps of all loops of one evaluation.
const MAX_STEPS: u64 = 1_000_000;
/// Maximum time of one evaluation.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Maximum length of a text or list that an expression makes.
pub(crate) const MAX_LENGTH: usize = 1024 * 1024;

/// Budget of an evaluation. Copies share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    steps: AtomicU64,
    until: Instant,
    exhausted: AtomicBool,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self::with(MAX_STEPS, MAX_TIME)
    }

    pub(crate) fn with(steps: u64, time: Duration) -> Self {
        Self(Arc::new(Account {
            steps: AtomicU64::new(steps),
            until: Instant::now() + time,
            exhausted: AtomicBool::new(false),
        }))
    }

    /// Returns true when the budget was used up: the result of the evaluation then means nothing.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.0.exhausted.load(Ordering::Relaxed) || Instant::now() > self.0.until
    }

    fn spend(&self) -> Result<bool, ExecutionError> {
        let Account { steps, until, exhausted } = &*self.0;
        let paid = steps.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if paid.is_err() || exhausted.load(Ordering::Relaxed) || Instant::now() > *until {
            return Err(self.fail());
        }
        Ok(true)
    }

    fn fail(&self) -> ExecutionError {
        self.0.exhausted.store(true, Ordering::Relaxed);
        ExecutionError::function_error("budget", "the cost limit of the evaluation is exceeded")
    }

    /// Adds the functions that spend from this budget.
    pub(crate) fn add_to(&self, context: &mut Context<'_>) {
        let budget = self.clone();
        context.add_function(SPEND, move || budget.spend());
        let budget = self.clone();
        context.add_function(SIZED, move |value: Value| -> Result<Value, ExecutionError> {
            let length = match &value {
                Value::String(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                Value::List(items) => items.len(),
                _ => 0,
            };
            if length > MAX_LENGTH { Err(budget.fail()) } else { Ok(value) }
        });
    }
}

/// Makes an expression spend from the budget.
pub(crate) fn meter(expression: &mut IdedExpr) {
    for_each_part(expression, &mut meter);
    let id = expression.id;
    let call = |name: &str, args: Vec<IdedExpr>| IdedExpr {
        id,
        expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }),
    };
    match &mut expression.expr {
        Expr::Comprehension(comprehension) => {
            let step = std::mem::take(&mut comprehension.loop_step);
            let unchanged = IdedExpr { id, expr: Expr::Ident(comprehension.accu_var.clone()) };
            let paid = call(SPEND, Vec::new());
            comprehension.loop_step = call(operators::CONDITIONAL, vec![paid, step, unchanged]);
        }
        Expr::Call(made) if made.func_name == operators::ADD || is_function(&made.func_name) => {
            let made = std::mem::take(expression);
            *expression = call(SIZED, vec![made]);
        }
        _ => {}
    }
}

/// Returns true for a function with a name: an operator and a function of this module have none.
fn is_function(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Calls a function for each expression that an expression directly contains.
pub(crate) fn for_each_part(expression: &mut IdedExpr, visit: &mut impl FnMut(&mut IdedExpr)) {
    match &mut expression.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| visit(target));
            call.args.iter_mut().for_each(visit);
        }
        Expr::Comprehension(comprehension) => {
            visit(&mut comprehension.iter_range);
            visit(&mut comprehension.accu_init);
            visit(&mut comprehension.loop_cond);
            visit(&mut comprehension.loop_step);
            visit(&mut comprehension.result);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(visit),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    visit(&mut entry.key);
                    visit(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => visit(&mut select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}
