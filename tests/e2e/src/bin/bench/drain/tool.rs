//! The tools that drain, and their commands.

/// The tool that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// One NodeEvacuation of all nodes.
    Evacuate,
    /// One NodeEvacuation for each group of nodes, after that of the earlier group. The nodes of later groups
    /// are not known to be due, so they have no taint.
    EvacuateGroups,
    /// The peer: one process a node.
    Drain,
}

impl Tool {
    /// Returns the commands that drain the nodes, that many at a time, as batches of commands that run at
    /// once.
    pub(super) fn batches(self, nodes: &[String], at_a_time: usize) -> Vec<Vec<Vec<String>>> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let evacuate = |nodes: &[String]| [&owned(&["evacuate", "node"])[..], nodes].concat();
        let groups = nodes.chunks(at_a_time.max(1));
        match self {
            Self::Evacuate => {
                let limit = (at_a_time < nodes.len()).then(|| format!("--max-parallel={at_a_time}"));
                vec![vec![evacuate(nodes).into_iter().chain(limit).collect()]]
            }
            Self::EvacuateGroups => groups.map(|group| vec![evacuate(group)]).collect(),
            Self::Drain => {
                groups.map(|group| group.iter().map(|node| owned(&["drain", node])).collect()).collect()
            }
        }
    }

    /// Returns the command's name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Evacuate | Self::EvacuateGroups => "evacuate",
            Self::Drain => "drain",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_drains_the_nodes_in_its_way() {
        let nodes = ["a", "b", "c"].map(str::to_owned);
        let batches = |tool: Tool, at_a_time| {
            let batches = tool.batches(&nodes, at_a_time);
            let line =
                |batch: &Vec<Vec<String>>| batch.iter().map(|words| words.join(" ")).collect::<Vec<_>>();
            batches.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(batches(Tool::Evacuate, 3), [["evacuate node a b c"]]);
        assert_eq!(batches(Tool::Evacuate, 2), [["evacuate node a b c --max-parallel=2"]]);
        assert_eq!(batches(Tool::EvacuateGroups, 2), [["evacuate node a b"], ["evacuate node c"]]);
        assert_eq!(batches(Tool::Drain, 2), [vec!["drain a", "drain b"], vec!["drain c"]]);
    }
}
