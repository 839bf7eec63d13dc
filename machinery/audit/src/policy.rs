//! Policies: the level at which each request is recorded.

use std::path::Path;

use machinery_auth::Attributes;
use machinery_merge::{Strictness, decode_yaml};
use machinery_validation::{FieldError, FieldPath, dns1123_subdomain};
use serde::Deserialize;
use serde_json::Value;
use strum::VariantNames;

use crate::{Level, PolicyError, Stage};

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

/// Policy of an audit log: `audit.k8s.io/v1` Policy. The first rule that matches a request decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<(PolicyRule, Decision)>,
    otherwise: Decision,
}

/// Effect of a policy on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Level of its events.
    pub level: Level,
    /// Stages that are not recorded.
    pub omit_stages: Vec<Stage>,
    /// True when the recorded objects have no managed fields.
    pub omit_managed_fields: bool,
}

/// Rule of a policy. A request matches when it matches every field that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Name of the [`Level`].
    pub level: String,
    /// Names of users.
    pub users: Vec<String>,
    /// Groups; the user is in one of them.
    pub user_groups: Vec<String>,
    /// Verbs. For paths that are no resources, HTTP methods in lower case.
    pub verbs: Vec<String>,
    /// Resources.
    pub resources: Vec<GroupResources>,
    /// Namespaces; the empty name is that of requests without a namespace.
    pub namespaces: Vec<String>,
    /// Paths that are no resources, such as `/metrics` or `/healthz*`.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
    /// Names of the stages that are not recorded, besides those of the policy.
    pub omit_stages: Vec<String>,
    /// Overrides the policy's value.
    pub omit_managed_fields: Option<bool>,
}

/// Resources of one API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupResources {
    /// The group; `*` for all.
    pub group: String,
    /// Resources such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*`. None means all.
    pub resources: Vec<String>,
    /// Names of objects. None means all.
    pub resource_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyFile {
    api_version: String,
    kind: String,
    #[serde(rename = "metadata")]
    _metadata: Value,
    rules: Vec<PolicyRule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

impl Policy {
    /// Reads a policy from a file.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Read`], and those of [`Policy::parse`].
    pub fn load(file: &Path) -> Result<Self, PolicyError> {
        let text =
            std::fs::read(file).map_err(|source| PolicyError::Read { file: file.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a policy from YAML or JSON.
    ///
    /// Unknown and duplicate fields are errors. kube-apiserver only warns of them. A misspelled field widens
    /// its rule.
    ///
    /// # Errors
    ///
    /// It is not a valid policy; the error names the field.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        let decoded = decode_yaml::<PolicyFile>(text, Strictness::Strict).map_err(PolicyError::Decode)?;
        let file = decoded.value;
        if (file.api_version.as_str(), file.kind.as_str()) != (API_VERSION, KIND) {
            return Err(PolicyError::Type { api_version: file.api_version, kind: file.kind });
        }
        let errors = validate(&file);
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors));
        }
        if file.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        let decision = |level: &str, stages: &[String], omit_managed_fields| Decision {
            level: level.parse().unwrap_or_default(),
            omit_stages: file
                .omit_stages
                .iter()
                .chain(stages)
                .filter_map(|stage| stage.parse().ok())
                .collect(),
            omit_managed_fields,
        };
        let rule = |rule: &PolicyRule| {
            let omit_managed_fields = rule.omit_managed_fields.unwrap_or(file.omit_managed_fields);
            (rule.clone(), decision(&rule.level, &rule.omit_stages, omit_managed_fields))
        };
        let rules = file.rules.iter().map(rule).collect();
        Ok(Self { rules, otherwise: decision("", &[], file.omit_managed_fields) })
    }

    /// Decides on a request. The user of one that was not authenticated has an empty name and no groups.
    pub fn decide(&self, attributes: &Attributes) -> &Decision {
        let found = self.rules.iter().find(|(rule, _)| rule.matches(attributes));
        found.map_or(&self.otherwise, |(_, decision)| decision)
    }
}

/// Returns every error. Source of the rules: `k8s.io/apiserver/pkg/apis/audit/validation`.
fn validate(policy: &PolicyFile) -> Vec<FieldError> {
    let mut errors = stage_errors(&policy.omit_stages, &FieldPath::new("omitStages"));
    for (at, rule) in policy.rules.iter().enumerate() {
        let path = FieldPath::new("rules").index(at);
        let level = path.child("level");
        if rule.level.is_empty() {
            errors.push(FieldError::required(&level, ""));
        } else if rule.level.parse::<Level>().is_err() {
            errors.push(FieldError::not_supported(&level, &rule.level, Level::VARIANTS));
        }
        errors.extend(url_errors(rule, &path.child("nonResourceURLs")));
        errors.extend(resource_errors(&rule.resources, &path.child("resources")));
        errors.extend(stage_errors(&rule.omit_stages, &path.child("omitStages")));
    }
    errors
}

fn stage_errors(stages: &[String], path: &FieldPath) -> Vec<FieldError> {
    let unknown = stages.iter().enumerate().filter(|(_, stage)| stage.parse::<Stage>().is_err());
    let allowed = format!("allowed stages are {}", Stage::VARIANTS.join(","));
    unknown.map(|(at, stage)| FieldError::invalid(&path.index(at), stage, &allowed)).collect()
}

fn url_errors(rule: &PolicyRule, path: &FieldPath) -> Vec<FieldError> {
    let urls = &rule.non_resource_urls;
    let mut errors = Vec::new();
    for (at, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let path = path.index(at);
        if !url.starts_with('/') {
            let message = "non-resource URL rules must begin with a '/' character";
            errors.push(FieldError::invalid(&path, url, message));
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            let message = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(FieldError::invalid(&path, url, message));
        }
    }
    let for_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if for_resources && !urls.is_empty() {
        let message = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(path, &urls.join(","), message));
    }
    errors
}

fn resource_errors(resources: &[GroupResources], path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, resources) in resources.iter().enumerate() {
        let (path, group) = (path.index(at), &resources.group);
        let wrong = if matches!(group.as_str(), "" | "*") { Vec::new() } else { dns1123_subdomain(group) };
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&path.child("group"), group, wrong.join(",")));
        }
        if !resources.resource_names.is_empty() && resources.resources.is_empty() {
            let names = resources.resource_names.join(",");
            let message = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(&path.child("resourceNames"), &names, message));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rest: &str) -> String {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rest}");
        Policy::parse(text.as_bytes()).expect_err(rest).to_string()
    }

    #[test]
    fn a_policy_that_is_wrong_is_refused_with_the_name_of_its_field() {
        let cases = [
            ("rules: []", "has no rules"),
            ("rules: [{}]", "rules[0].level: Required value"),
            ("rules: [{level: Loud}]", "rules[0].level: Unsupported value: \"Loud\""),
            ("rules: [{level: None}]\nomitStages: [Late]", "omitStages[0]: Invalid value: \"Late\""),
            ("rules: [{level: None, omitStages: [Late]}]", "rules[0].omitStages[0]"),
            ("rules: [{level: None, nonResourceURLs: [metrics]}]", "rules[0].nonResourceURLs[0]"),
            ("rules: [{level: None, nonResourceURLs: [/a*b]}]", "final character"),
            ("rules: [{level: None, nonResourceURLs: [/a], namespaces: [n]}]", "both regular resources and"),
            ("rules: [{level: None, resources: [{group: apps/v1}]}]", "rules[0].resources[0].group"),
            (
                "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
                "rules[0].resources[0].resourceNames",
            ),
            ("rules: [{level: None, verb: [get]}]", "unknown field \"rules[0].verb\""),
            ("rules: [{level: None, verbs: get}]", "rules[0].verbs"),
        ];
        for (rest, expected) in cases {
            let refusal = refusal(rest);
            assert!(refusal.contains(expected), "{rest}: {refusal}");
        }
        let other = Policy::parse(b"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]");
        assert!(other.expect_err("another version").to_string().contains("audit.k8s.io/v1beta1"));
    }

    #[test]
    fn stages_are_left_out_by_policy_and_rule_and_a_rule_decides_on_managed_fields() {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nmetadata: {name: p}\nomitStages: [Panic]\n\
                    omitManagedFields: true\nrules:\n- {level: Request, users: [jane], omitStages: \
                    [RequestReceived], omitManagedFields: false}\n";
        let policy = Policy::parse(text.as_bytes()).expect("a policy");
        let user = |name: &str| machinery_auth::UserInfo { name: name.to_owned(), ..Default::default() };
        let decision = policy.decide(&Attributes::of_path(user("jane"), "get", "/"));
        assert_eq!((decision.level, decision.omit_managed_fields), (Level::Request, false));
        assert_eq!(decision.omit_stages, [Stage::Panic, Stage::RequestReceived]);
        let decision = policy.decide(&Attributes::of_path(user("joe"), "get", "/"));
        assert_eq!((decision.level, decision.omit_managed_fields), (Level::None, true));
    }
}
