//! `-v`: the requests of the command on standard error.

use tracing_subscriber::fmt::format::FmtSpan;

/// Level from which requests are logged, as in kubectl.
const REQUESTS: u8 = 6;
/// Level from which connections are logged, too.
const CONNECTIONS: u8 = 8;

/// Logs as much as that level says. A second call changes nothing.
pub(crate) fn set(level: u8) {
    let Some(filter) = filter(level) else { return };
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE);
    // It fails only when a logger is there.
    let _ = logger.try_init();
}

fn filter(level: u8) -> Option<&'static str> {
    match level {
        CONNECTIONS.. => {
            Some("kube_client=trace,kube_runtime=debug,evacuation_client=debug,hyper_util=debug")
        }
        REQUESTS.. => Some("kube_client=debug,evacuation_client=info"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_logged_from_level_6_on() {
        for (level, expected) in [(0, None), (5, None), (6, Some("debug")), (9, Some("trace"))] {
            let filter = filter(level);
            assert_eq!(filter.is_some(), expected.is_some(), "{level}");
            assert!(
                expected.is_none_or(|word| filter.is_some_and(|filter| filter.contains(word))),
                "{level}"
            );
        }
    }
}
