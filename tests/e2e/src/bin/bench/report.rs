//! One row a figure, as a table or as JSON lines.

use comfy_table::Table;
use serde::Serialize;

/// Direction in which a value improves.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// The aim of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aim {
    /// Maximum value, in the figure's unit.
    Value(f64),
    /// Maximum ratio to the peer of the same run.
    Ratio(f64),
    /// Minimum ratio to the peer of the same run.
    RatioAtLeast(f64),
}

/// One figure, and its peer's if there is a peer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    case: String,
    value: f64,
    unit: &'static str,
    peer: Option<&'static str>,
    peer_value: Option<f64>,
    ratio: Option<f64>,
    aim: Option<Aim>,
    better: Better,
}

impl Row {
    /// Returns a figure without a peer and without an aim.
    pub(crate) fn new(bench: &'static str, case: impl Into<String>, unit: &'static str, value: f64) -> Self {
        let case = case.into();
        Self {
            bench,
            case,
            value,
            unit,
            peer: None,
            peer_value: None,
            ratio: None,
            aim: None,
            better: Better::Lower,
        }
    }

    /// The same beside a peer's figure of the same run. There is no ratio to a peer's nothing.
    pub(crate) fn beside(self, peer: &'static str, peer_value: f64) -> Self {
        let both_none = self.value == 0.0 && peer_value == 0.0;
        let ratio = if both_none { Some(1.0) } else { Some(self.value / peer_value) };
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        Self { peer: Some(peer), peer_value: Some(peer_value), ratio, ..self }
    }

    /// The same figure as one that improves upwards, such as a rate.
    pub(crate) fn higher(self) -> Self {
        Self { better: Better::Higher, ..self }
    }

    /// The same with an aim.
    pub(crate) fn aim(self, aim: Aim) -> Self {
        Self { aim: Some(aim), ..self }
    }
}

impl Aim {
    fn words(self) -> String {
        match self {
            Self::Value(most) if most > 0.0 => format!("< {most}"),
            Self::Value(_) => "0".to_owned(),
            Self::Ratio(most) => format!("ratio <= {most}"),
            Self::RatioAtLeast(least) => format!("ratio >= {least}"),
        }
    }
}

/// Prints the rows.
pub(crate) fn print(rows: &[Row], json: bool) -> anyhow::Result<()> {
    if json {
        for row in rows {
            println!("{}", serde_json::to_string(row)?);
        }
        return Ok(());
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["bench", "case", "value", "unit", "peer", "peer's value", "ratio", "aim", "better"]);
    let or_nothing = |number: Option<String>| number.unwrap_or_default();
    for row in rows {
        table.add_row([
            row.bench.to_owned(),
            row.case.clone(),
            rounded(row.value),
            row.unit.to_owned(),
            row.peer.unwrap_or_default().to_owned(),
            or_nothing(row.peer_value.map(rounded)),
            or_nothing(row.ratio.map(|ratio| format!("{ratio:.2}"))),
            row.aim.map_or_else(String::new, Aim::words),
            match row.better {
                Better::Lower => "lower".to_owned(),
                Better::Higher => "higher".to_owned(),
            },
        ]);
    }
    println!("{table}");
    Ok(())
}

/// Returns a number with one place, or with two when it is small.
fn rounded(number: f64) -> String {
    if number.abs() < 10.0 { format!("{number:.2}") } else { format!("{number:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_to_the_peer_and_a_peers_nothing_has_none() {
        let ratio =
            |value, peer| Row::new("drain", "wall time", "s", value).beside("kubectl drain", peer).ratio;
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
        assert_eq!(ratio(0.0, 0.0), Some(1.0));
        assert_eq!(ratio(1.0, 0.0), None);
    }

    #[test]
    fn a_figure_without_a_peer_says_so_in_json() {
        let json = serde_json::to_value(Row::new("drain", "memory", "KiB", 3.0)).unwrap();
        for field in ["peer", "peer_value", "ratio"] {
            assert!(json[field].is_null(), "{field}: {json}");
        }
    }
}
