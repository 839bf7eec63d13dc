//! One row a figure, as a table or as JSON lines.

use comfy_table::Table;
use serde::Serialize;

/// Direction in which a value improves.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Lower,
}

/// The aim of a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aim {
    /// Maximum value, in the figure's unit.
    Value(f64),
    /// Maximum ratio to the peer of the same run.
    Ratio(f64),
}

/// One figure and its peer's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) bench: &'static str,
    pub(crate) case: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) peer: &'static str,
    pub(crate) peer_value: f64,
    pub(crate) ratio: f64,
    pub(crate) aim: Option<Aim>,
    pub(crate) better: Better,
}

impl Aim {
    fn words(self) -> String {
        match self {
            Self::Value(most) if most > 0.0 => format!("< {most}"),
            Self::Value(_) => "0".to_owned(),
            Self::Ratio(most) => format!("ratio <= {most}"),
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
    for row in rows {
        table.add_row([
            row.bench.to_owned(),
            row.case.clone(),
            format!("{:.1}", row.value),
            row.unit.to_owned(),
            row.peer.to_owned(),
            format!("{:.1}", row.peer_value),
            format!("{:.2}", row.ratio),
            row.aim.map_or_else(String::new, Aim::words),
            "lower".to_owned(),
        ]);
    }
    println!("{table}");
    Ok(())
}
