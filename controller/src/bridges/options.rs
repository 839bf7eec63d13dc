//! Flags of the bridges.

use chrono::TimeDelta;
use clap::{Args, ValueEnum};
use evacuation_api::parse_duration;

/// A bridge to the maintenance objects of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Bridge {
    /// Live migration of KubeVirt's virtual machines, by the responder `kubevirt.evacuation.dev/migrate`.
    Kubevirt,
    /// DrainRequest objects of NVSentinel, in place of a drain plugin.
    Nvsentinel,
    /// NodeMaintenance objects of medik8s, in place of its operator.
    NodeMaintenance,
}

/// Flags of the bridges.
#[derive(Clone, Debug, Args)]
pub struct BridgeOptions {
    /// Bridge to another project's objects; may be repeated.
    #[arg(long, value_enum)]
    pub bridge: Vec<Bridge>,
    /// Time after which a request of a bridge stops negotiating and evicts within the budgets; never by
    /// default. It counts from the request.
    #[arg(long, value_parser = parse_duration)]
    pub bridge_deadline: Option<TimeDelta>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        bridges: BridgeOptions,
    }

    #[test]
    fn bridges_are_off_unless_they_are_named_and_may_be_several() {
        let parse =
            |flags: &[&str]| Flags::try_parse_from([""].iter().chain(flags)).map(|flags| flags.bridges);
        assert!(parse(&[]).unwrap().bridge.is_empty());
        let all = parse(&["--bridge=node-maintenance", "--bridge=kubevirt", "--bridge=nvsentinel"]).unwrap();
        assert_eq!(all.bridge, [Bridge::NodeMaintenance, Bridge::Kubevirt, Bridge::Nvsentinel]);
        let deadline = parse(&["--bridge-deadline=50m"]).unwrap().bridge_deadline;
        assert_eq!(deadline, Some(TimeDelta::minutes(50)));
        for wrong in ["--bridge=other", "--bridge-deadline=0s", "--bridge-deadline=50"] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
