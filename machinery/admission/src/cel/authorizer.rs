//! The variable `authorizer`. Source of the functions: `k8s.io/apiserver/pkg/cel/library/authz.go`.

use std::{fmt, sync::Arc, time::Duration};

use kube_cel::cel::{Context, ExecutionError, Value, extractors::This, objects::Opaque};
use machinery_auth::{Attributes, Authorizer, ResourceAttributes, UserInfo, Verdict};
use tokio::runtime::Handle;

/// Variable for `authorizer.requestResource`.
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// Maximum time of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Source of verdicts for a user. Expressions run on threads that may block.
#[derive(Clone)]
pub(crate) struct Authz {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) runtime: Handle,
    pub(crate) user: UserInfo,
}

/// Question that an expression builds up.
#[derive(Clone)]
struct Question {
    authz: Authz,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Nothing,
    Path(String),
    Group(String),
    Resource(ResourceAttributes),
}

/// Verdict that an expression looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decision {
    allowed: bool,
    reason: String,
    error: Option<String>,
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.authz.user == other.authz.user && self.target == other.target
    }
}

impl Eq for Question {}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "authorizer of {:?} for {:?}", self.authz.user.name, self.target)
    }
}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }
}

impl Opaque for Decision {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Decision"
    }
}

type Text = Arc<String>;
type Outcome = Result<Value, ExecutionError>;

/// Adds the variable and its functions.
pub(crate) fn add_to(context: &mut Context<'_>, authz: &Authz, request: &ResourceAttributes) {
    let question = |target| Value::Opaque(Arc::new(Question { authz: authz.clone(), target }));
    context.add_variable_from_value("authorizer", question(Target::Nothing));
    context.add_variable_from_value(REQUEST_RESOURCE, question(Target::Resource(request.clone())));
    context.add_function("path", |This(this): This<Value>, path: Text| -> Outcome {
        retarget(&this, "path", |target| match target {
            Target::Nothing => Some(Target::Path(path.to_string())),
            _ => None,
        })
    });
    context.add_function("group", |This(this): This<Value>, group: Text| -> Outcome {
        retarget(&this, "group", |target| match target {
            Target::Nothing => Some(Target::Group(group.to_string())),
            _ => None,
        })
    });
    context.add_function("resource", |This(this): This<Value>, resource: Text| -> Outcome {
        retarget(&this, "resource", |target| match target {
            Target::Group(group) => {
                Some(Target::Resource(ResourceAttributes::new(group, "*", resource.to_string())))
            }
            _ => None,
        })
    });
    context.add_function("subresource", |This(this): This<Value>, text: Text| -> Outcome {
        narrow(&this, "subresource", |resource| resource.subresource(text.to_string()))
    });
    context.add_function("namespace", |This(this): This<Value>, text: Text| -> Outcome {
        narrow(&this, "namespace", |resource| resource.in_namespace(text.to_string()))
    });
    context.add_function("name", |This(this): This<Value>, text: Text| -> Outcome {
        narrow(&this, "name", |resource| resource.named(text.to_string()))
    });
    context.add_function(
        "serviceAccount",
        |This(this): This<Value>, namespace: Text, name: Text| -> Outcome {
            let question = question_of(&this, "serviceAccount")?;
            let user = UserInfo {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ],
                ..UserInfo::default()
            };
            let authz = Authz { user, ..question.authz.clone() };
            Ok(Value::Opaque(Arc::new(Question { authz, target: question.target.clone() })))
        },
    );
    context.add_function("check", |This(this): This<Value>, verb: Text| -> Outcome {
        let question = question_of(&this, "check")?;
        Ok(Value::Opaque(Arc::new(question.check(&verb)?)))
    });
    context.add_function("allowed", |This(this): This<Value>| -> Outcome {
        decision_of(&this, "allowed").map(|decision| decision.allowed.into())
    });
    context.add_function("reason", |This(this): This<Value>| -> Outcome {
        decision_of(&this, "reason").map(|decision| Value::String(Arc::new(decision.reason.clone())))
    });
    context.add_function("errored", |This(this): This<Value>| -> Outcome {
        decision_of(&this, "errored").map(|decision| decision.error.is_some().into())
    });
    context.add_function("error", |This(this): This<Value>| -> Outcome {
        decision_of(&this, "error")
            .map(|decision| Value::String(Arc::new(decision.error.clone().unwrap_or_default())))
    });
}

impl Question {
    fn check(&self, verb: &str) -> Result<Decision, ExecutionError> {
        let Authz { authorizer, runtime, user } = &self.authz;
        let attributes = match &self.target {
            Target::Path(path) => Attributes::of_path(user.clone(), verb, path.clone()),
            Target::Resource(resource) => Attributes::of_resource(user.clone(), verb, resource.clone()),
            Target::Nothing | Target::Group(_) => return Err(ExecutionError::NoSuchOverload),
        };
        let verdict = runtime
            .block_on(async { tokio::time::timeout(CHECK_TIMEOUT, authorizer.authorize(&attributes)).await });
        Ok(match verdict {
            Ok(Ok(Verdict::Allowed)) => Decision { allowed: true, reason: String::new(), error: None },
            Ok(Ok(Verdict::Denied { reason })) => Decision { allowed: false, reason, error: None },
            Ok(Err(error)) => {
                Decision { allowed: false, reason: String::new(), error: Some(error.to_string()) }
            }
            Err(_) => {
                let error = Some(format!("no verdict within {CHECK_TIMEOUT:?}"));
                Decision { allowed: false, reason: String::new(), error }
            }
        })
    }
}

fn question_of<'a>(value: &'a Value, function: &str) -> Result<&'a Question, ExecutionError> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::not_supported_as_method(function, value.clone())),
    }
}

fn decision_of<'a>(value: &'a Value, function: &str) -> Result<&'a Decision, ExecutionError> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::not_supported_as_method(function, value.clone())),
    }
}

fn retarget(value: &Value, function: &str, to: impl FnOnce(&Target) -> Option<Target>) -> Outcome {
    let question = question_of(value, function)?;
    let target = to(&question.target).ok_or(ExecutionError::NoSuchOverload)?;
    Ok(Value::Opaque(Arc::new(Question { authz: question.authz.clone(), target })))
}

fn narrow(
    value: &Value,
    function: &str,
    to: impl FnOnce(ResourceAttributes) -> ResourceAttributes,
) -> Outcome {
    retarget(value, function, |target| match target {
        Target::Resource(resource) => Some(Target::Resource(to(resource.clone()))),
        _ => None,
    })
}
