//! Rules and selectors that decide if a webhook or a policy applies to a write. Source of the rules:
//! `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates` and `.../policy/matching`.

use k8s_openapi::{
    api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations, RuleWithOperations},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Selector, SelectorExt};
use machinery_server::AdmissionAttributes;

use crate::subject::{Subject, SubjectError, operation};

/// Scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// A scope that this version does not know matches nothing.
    Unknown,
}

/// Versions of a kind that a list of rules looks at: `matchPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MatchPolicy {
    /// That of the request, else any other in which the kind is served.
    #[default]
    Equivalent,
    /// That of the request.
    Exact,
}

impl MatchPolicy {
    /// Reads the field of a configuration. Without it, the default of the API counts.
    pub(crate) fn new(policy: Option<&str>) -> Self {
        if policy == Some("Exact") { Self::Exact } else { Self::Equivalent }
    }

    /// Returns the version in which one of the rules is for a write; `None` when none is. As upstream, rules
    /// for the version of the request come first, and then the first rule for any version.
    pub(crate) fn matched_version<'a>(
        self,
        rules: &[Rule],
        attributes: &AdmissionAttributes<'a>,
    ) -> Option<&'a str> {
        if rules.iter().any(|rule| rule.matches(attributes, attributes.version)) {
            return Some(attributes.version);
        }
        let converter = attributes.converter.filter(|_| self == Self::Equivalent)?;
        let versions = converter.versions();
        let first = |rule: &Rule| versions.iter().find(|version| rule.matches(attributes, version));
        rules.iter().find_map(first).copied()
    }
}

/// Operations on resources.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resources and subresources.
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Names of objects; empty for all.
    names: Vec<String>,
}

impl Rule {
    /// Reads the rule of a webhook.
    pub(crate) fn of_webhook(rule: &RuleWithOperations) -> Self {
        let RuleWithOperations { api_groups, api_versions, operations, resources, scope } = rule;
        Self::new([operations, api_groups, api_versions, resources], scope.as_deref(), None)
    }

    fn of_policy(rule: &NamedRuleWithOperations) -> Self {
        let NamedRuleWithOperations {
            api_groups,
            api_versions,
            operations,
            resources,
            scope,
            resource_names,
        } = rule;
        Self::new(
            [operations, api_groups, api_versions, resources],
            scope.as_deref(),
            resource_names.as_ref(),
        )
    }

    fn new(lists: [&Option<Vec<String>>; 4], scope: Option<&str>, names: Option<&Vec<String>>) -> Self {
        let [operations, groups, versions, resources] = lists.map(|list| list.clone().unwrap_or_default());
        let split = |resource: &String| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource.clone(), String::new()),
        };
        let scope = match scope {
            None | Some("*") => Scope::All,
            Some("Namespaced") => Scope::Namespaced,
            Some("Cluster") => Scope::Cluster,
            Some(_) => Scope::Unknown,
        };
        let resources = resources.iter().map(split).collect();
        Self { operations, groups, versions, resources, scope, names: names.cloned().unwrap_or_default() }
    }

    /// Returns true when the rule is for such a write in a version of its kind.
    fn matches(&self, attributes: &AdmissionAttributes<'_>, version: &str) -> bool {
        let any = |items: &[String], wanted: &str| items.iter().any(|item| item == "*" || item == wanted);
        let namespaced = !attributes.context.namespace.is_empty();
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => namespaced,
            Scope::Cluster => !namespaced,
            Scope::Unknown => false,
        };
        let resource = |(resource, subresource): &(String, String)| {
            (resource == "*" || resource == attributes.resource)
                && (subresource == "*" || *subresource == attributes.context.subresource)
        };
        in_scope
            && any(&self.operations, operation(attributes))
            && any(&self.groups, attributes.group)
            && any(&self.versions, version)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

/// Selectors of the namespace and of the object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    namespace: Option<Selector>,
    object: Option<Selector>,
}

/// A selector that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the label selector cannot be read: {0}")]
pub(crate) struct SelectorError(String);

impl Selectors {
    pub(crate) fn new(
        namespace: Option<&LabelSelector>,
        object: Option<&LabelSelector>,
    ) -> Result<Self, SelectorError> {
        Ok(Self { namespace: selector(namespace)?, object: selector(object)? })
    }

    /// Returns true when the namespace matches, and the new object or the old one. An object without a
    /// namespace matches every selector of namespaces.
    pub(crate) async fn match_subject(&self, subject: &Subject<'_>) -> Result<bool, SubjectError> {
        if let Some(selector) = &self.object {
            let matches = |labels| selector.matches(&labels);
            let new = subject.object.map(crate::subject::labels).is_some_and(matches);
            let old = || subject.old.map(crate::subject::labels).is_some_and(matches);
            if !new && !old() {
                return Ok(false);
            }
        }
        match &self.namespace {
            Some(selector) if !subject.attributes.context.namespace.is_empty() => {
                Ok(selector.matches(&subject.namespace_labels().await?))
            }
            _ => Ok(true),
        }
    }
}

/// Reads a selector; `None` for one that selects everything.
pub(crate) fn selector(selector: Option<&LabelSelector>) -> Result<Option<Selector>, SelectorError> {
    let selector = Selector::try_from(selector.cloned().unwrap_or_default())
        .map_err(|error| SelectorError(error.to_string()))?;
    Ok(Some(selector).filter(|selector| !selector.selects_all()))
}

/// `matchConstraints` of a policy, or `matchResources` of a binding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    policy: MatchPolicy,
    selectors: Selectors,
    included: Vec<Rule>,
    excluded: Vec<Rule>,
}

impl Constraints {
    pub(crate) fn new(resources: Option<&MatchResources>) -> Result<Self, SelectorError> {
        let Some(resources) = resources else { return Ok(Self::default()) };
        let rules = |rules: &Option<Vec<NamedRuleWithOperations>>| -> Vec<Rule> {
            rules.iter().flatten().map(Rule::of_policy).collect()
        };
        let (namespace, object) = (&resources.namespace_selector, &resources.object_selector);
        Ok(Self {
            policy: MatchPolicy::new(resources.match_policy.as_deref()),
            selectors: Selectors::new(namespace.as_ref(), object.as_ref())?,
            included: rules(&resources.resource_rules),
            excluded: rules(&resources.exclude_resource_rules),
        })
    }

    /// Returns the version in which the rules are for a write; `None` when they are not. Without rules, every
    /// write matches.
    pub(crate) fn matched_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a str> {
        if self.policy.matched_version(&self.excluded, attributes).is_some() {
            return None;
        }
        if self.included.is_empty() {
            return Some(attributes.version);
        }
        self.policy.matched_version(&self.included, attributes)
    }

    /// Returns the version in which rules and selectors match.
    pub(crate) async fn match_subject<'a>(
        &self,
        subject: &Subject<'a>,
    ) -> Result<Option<&'a str>, SubjectError> {
        let Some(version) = self.matched_version(subject.attributes) else { return Ok(None) };
        Ok(self.selectors.match_subject(subject).await?.then_some(version))
    }
}

#[cfg(test)]
mod tests;
