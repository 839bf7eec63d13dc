//! The flags of the audit log.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use machinery_audit::{AuditLog, LogOptions, Mode, Policy};

use crate::RunError;

/// Flags of the audit log, as kube-apiserver has them.
#[derive(Args, Clone, Debug)]
pub struct AuditOptions {
    /// Audit policy: a file with a Policy of audit.k8s.io/v1. Without it, nothing is recorded.
    #[arg(long, requires = "audit_log_path", value_name = "FILE")]
    pub audit_policy_file: Option<PathBuf>,
    /// File for the audit events, one JSON object a line; - for standard output.
    #[arg(long, requires = "audit_policy_file", value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,
    /// Size in megabytes at which the audit log is renamed and begun again; 0 for never.
    #[arg(long, default_value_t = 100, value_name = "MEGABYTES")]
    pub audit_log_maxsize: u64,
    /// Number of old audit logs that are kept; 0 for all.
    #[arg(long, default_value_t = 100, value_name = "NUMBER")]
    pub audit_log_maxbackup: usize,
    /// Days for which old audit logs are kept; 0 for all.
    #[arg(long, default_value_t = 366, value_name = "DAYS")]
    pub audit_log_maxage: u32,
    /// Treatment of requests until their events are written: blocking, blocking-strict or batch. A blocking
    /// request waits for at most 10 s. In batch mode requests do not wait, and events are dropped and counted
    /// when the disk stalls. In the strict mode, requests fail whose first event cannot be written.
    #[arg(long, default_value_t = Mode::Blocking, value_name = "MODE")]
    pub audit_log_mode: Mode,
}

impl AuditOptions {
    /// Reads the policy and opens the log; `None` when nothing is to be recorded.
    ///
    /// # Errors
    ///
    /// The policy is not valid, or the log cannot be opened.
    pub(crate) fn start(self) -> Result<Option<(Policy, Arc<AuditLog>)>, RunError> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, self.audit_log_path) else {
            return Ok(None);
        };
        let policy = Policy::load(policy).map_err(RunError::AuditPolicy)?;
        let log = AuditLog::start(LogOptions {
            path,
            mode: self.audit_log_mode,
            max_size: self.audit_log_maxsize,
            max_backups: self.audit_log_maxbackup,
            max_age: self.audit_log_maxage,
            ..LogOptions::default()
        });
        Ok(Some((policy, Arc::new(log.map_err(RunError::AuditLog)?))))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        audit: AuditOptions,
    }

    fn parse(arguments: &[&str]) -> Result<AuditOptions, clap::Error> {
        Flags::try_parse_from(std::iter::once(&"x").chain(arguments)).map(|flags| flags.audit)
    }

    #[test]
    fn a_policy_needs_a_log_and_a_log_a_policy() {
        assert!(parse(&[]).expect("nothing").start().expect("nothing").is_none());
        for (given, missing) in
            [("--audit-policy-file=p", "--audit-log-path"), ("--audit-log-path=-", "--audit-policy-file")]
        {
            let error = parse(&[given]).expect_err(given).to_string();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn the_modes_have_kube_apiservers_names() {
        let mode =
            |name: &str| parse(&[&format!("--audit-log-mode={name}")]).map(|flags| flags.audit_log_mode);
        assert_eq!(mode("batch").expect("a mode"), Mode::Batch);
        assert_eq!(mode("blocking-strict").expect("a mode"), Mode::BlockingStrict);
        assert!(mode("never").is_err());
    }

    #[test]
    fn a_policy_that_is_wrong_is_refused_with_its_field() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Loud}]\n")
            .expect("a file");
        let flag = format!("--audit-policy-file={}", file.display());
        let error = parse(&[&flag, "--audit-log-path=-"]).expect("flags").start().expect_err("wrong");
        let source = std::error::Error::source(&error).expect("a source").to_string();
        assert!(source.contains("rules[0].level"), "{source}");
    }
}
