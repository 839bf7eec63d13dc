//! `/livez`, `/readyz` and `/healthz`. Source of the form: `k8s.io/apiserver/pkg/server/healthz`.

use actix_web::http::StatusCode;

use super::{params::Params, reply::Reply};
use crate::{ApiError, Reason};

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) healthy: bool,
    /// Remark on a healthy check, for the verbose report. Anybody may read it.
    pub(crate) note: Option<String>,
}

/// Splits the path of a probe: `("readyz", "storage")` for `/readyz/storage`. `None` for other paths.
pub(crate) fn probe(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_matches('/');
    let (probe, check) = path.split_once('/').unwrap_or((path, ""));
    matches!(probe, "livez" | "readyz" | "healthz").then_some((probe, check))
}

/// Returns the reply of a probe with these checks.
///
/// # Errors
///
/// `NotFound` for a single check that does not exist.
pub(crate) fn report(probe: &str, only: &str, checks: &[Check], params: &Params) -> Result<Reply, ApiError> {
    let excluded: Vec<&str> = params.all("exclude").filter(|name| !name.is_empty()).collect();
    let chosen: Vec<&Check> = checks
        .iter()
        .filter(|check| (only.is_empty() || check.name == only) && !excluded.contains(&check.name.as_str()))
        .collect();
    if !only.is_empty() && chosen.is_empty() {
        return Err(ApiError::status(Reason::NotFound, format!("{probe} has no check {only:?}")));
    }
    let healthy = chosen.iter().all(|check| check.healthy);
    if healthy && (!only.is_empty() || params.switch("verbose").is_none()) {
        return Ok(Reply::Text(StatusCode::OK, "ok".to_owned()));
    }
    let mut text = String::new();
    for check in chosen {
        // The cause is in the log: anybody may call a probe.
        let (sign, result) = if check.healthy { ('+', "ok") } else { ('-', "failed: reason withheld") };
        text.extend(["[", &sign.to_string(), "]", &check.name, " ", result]);
        if let Some(note) = check.note.as_deref().filter(|_| check.healthy) {
            text.extend([": ", note]);
        }
        text.push('\n');
    }
    let known = |name: &str| checks.iter().any(|check| check.name == name);
    let unknown: Vec<String> =
        excluded.iter().filter(|name| !known(name)).map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        text.extend(["warn: some health checks cannot be excluded: no matches for ", unknown.as_str(), "\n"]);
    }
    text.extend([probe, " check ", if healthy { "passed" } else { "failed" }, "\n"]);
    Ok(Reply::Text(if healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = Option<(u16, &'static str)>;

    fn answer(only: &str, healthy: bool, query: &str) -> Option<(u16, String)> {
        let checks = ["ping", "storage"].map(|name| Check {
            name: name.to_owned(),
            healthy: name == "ping" || healthy,
            note: None,
        });
        match report("readyz", only, &checks, &Params::parse(query).expect("a query")) {
            Ok(Reply::Text(code, text)) => Some((code.as_u16(), text)),
            _ => None,
        }
    }

    #[test]
    fn probes_answer_as_kube_apiservers_do() {
        let verbose = "[+]ping ok\n[+]storage ok\nreadyz check passed\n";
        let failed = "[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n";
        let warned = "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n";
        let cases: [(&str, bool, &str, Answer); 10] = [
            ("", true, "", Some((200, "ok"))),
            ("", true, "verbose", Some((200, verbose))),
            ("", false, "", Some((500, failed))),
            ("", false, "exclude=storage", Some((200, "ok"))),
            ("", false, "exclude=ping&exclude=storage", Some((200, "ok"))),
            ("", false, "exclude=x&exclude=storage&verbose", Some((200, warned))),
            ("ping", false, "", Some((200, "ok"))),
            ("storage", true, "", Some((200, "ok"))),
            ("storage", false, "", Some((500, "[-]storage failed: reason withheld\nreadyz check failed\n"))),
            ("none", true, "", None),
        ];
        for (only, healthy, query, expected) in cases {
            let expected = expected.map(|(code, text)| (code, text.to_owned()));
            assert_eq!(answer(only, healthy, query), expected, "{only} {healthy} {query}");
        }
    }

    #[test]
    fn a_remark_on_a_healthy_check_is_in_the_verbose_report_only() {
        let check = |healthy| Check { name: "ping".to_owned(), healthy, note: Some("one".to_owned()) };
        for (healthy, query, expected) in [
            (true, "verbose", "[+]ping ok: one\nreadyz check passed\n"),
            (true, "", "ok"),
            (false, "", "[-]ping failed: reason withheld\nreadyz check failed\n"),
        ] {
            let reply = report("readyz", "", &[check(healthy)], &Params::parse(query).expect("a query"));
            assert!(matches!(reply, Ok(Reply::Text(_, text)) if text == expected), "{healthy} {query}");
        }
    }

    #[test]
    fn health_paths_are_recognised() {
        assert_eq!(probe("/readyz"), Some(("readyz", "")));
        assert_eq!(probe("/readyz/storage"), Some(("readyz", "storage")));
        assert_eq!(probe("/readyzz"), None);
        assert_eq!(probe("/metrics"), None);
    }
}
