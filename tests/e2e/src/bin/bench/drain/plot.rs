//! Line charts as SVG.

use std::fmt::Write;

/// Size of a chart and of the space around its area, in pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 176.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
/// Colours of the lines. They differ in brightness, too.
const COLOURS: [&str; 3] = ["#0b5394", "#c55a11", "#38761d"];
/// Number of lines across the area.
const STEPS: u8 = 4;

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// The figure and its unit.
    pub(super) title: String,
    /// Name of the horizontal axis.
    pub(super) axis: &'static str,
    /// Lines, at most three.
    pub(super) lines: Vec<Line>,
    /// Range of values that is shaded, and its name.
    pub(super) band: Option<(f64, f64, &'static str)>,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Name.
    pub(super) name: &'static str,
    /// Points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// Returns the charts, one below the other.
pub(super) fn svg(charts: &[Chart]) -> String {
    let mut out = String::new();
    let height = charts.iter().fold(0.0, |height, _| height + HEIGHT);
    // Writing to a String cannot fail.
    let font = r#"font-family="sans-serif" font-size="12""#;
    writeln!(out, r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {font}>"#).ok();
    writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##).ok();
    let mut top = 0.0;
    for chart in charts {
        writeln!(out, r#"<g transform="translate(0 {top})">"#).ok();
        chart.draw(&mut out);
        writeln!(out, "</g>").ok();
        top += HEIGHT;
    }
    writeln!(out, "</svg>").ok();
    out
}

impl Chart {
    fn draw(&self, out: &mut String) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let highest = points().map(|point| point.1).chain(self.band.map(|band| band.1)).fold(0.0, f64::max);
        let scale = Scale {
            right: round_up(points().map(|point| point.0).fold(0.0, f64::max)),
            top: round_up(highest),
        };
        text(out, (LEFT, TOP - 16.0), "start", &self.title);
        text(out, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0), "middle", self.axis);
        if let Some((from, to, name)) = self.band {
            let (left, upper) = scale.place((0.0, to));
            let (right, lower) = scale.place((scale.right, from));
            let (width, height) = (right - left, lower - upper);
            let size = format!(r#"width="{width:.1}" height="{height:.1}""#);
            writeln!(out, r##"<rect x="{left:.1}" y="{upper:.1}" {size} fill="#e8e8e8"/>"##).ok();
            text(out, (left + 8.0, upper + 14.0), "start", name);
        }
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let (value, number) = (scale.top * part, scale.right * part);
            let (left, height) = scale.place((0.0, value));
            let (right, _) = scale.place((scale.right, value));
            line(out, "#b0b0b0", 0.5, &[(left, height), (right, height)]);
            text(out, (left - 6.0, height + 4.0), "end", &label(value));
            let (across, bottom) = scale.place((number, 0.0));
            text(out, (across, bottom + 18.0), "middle", &label(number));
        }
        let mut names = TOP + 8.0;
        for (series, colour) in self.lines.iter().zip(COLOURS) {
            let places: Vec<(f64, f64)> = series.points.iter().map(|point| scale.place(*point)).collect();
            line(out, colour, 2.0, &places);
            for ((x, y), (_, value)) in places.iter().zip(&series.points) {
                writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#).ok();
                text(out, (*x, y - 8.0), "middle", &label(*value));
            }
            let left = WIDTH - RIGHT + 20.0;
            line(out, colour, 2.0, &[(left, names), (left + 16.0, names)]);
            text(out, (left + 22.0, names + 4.0), "start", series.name);
            names += 18.0;
        }
    }
}

/// The values at the right and upper edges of the area.
struct Scale {
    right: f64,
    top: f64,
}

impl Scale {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        (LEFT + width * x / self.right, TOP + height * (1.0 - y / self.top))
    }
}

/// Returns the next number with one digit, or with a digit and a half, that can be divided into the steps.
fn round_up(value: f64) -> f64 {
    let power = 10.0_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|edge| *edge >= value).unwrap_or(10.0 * power)
}

/// Returns a number in few digits.
fn label(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size < 10.0 => format!("{number:.2}"),
        size if size < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

fn line(out: &mut String, colour: &str, width: f64, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    writeln!(out, r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>"#)
        .ok();
}

/// Writes text at a place. It holds none of the characters that XML reserves.
fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_lines_and_their_points_lie_within_the_area() {
        let chart = Chart {
            title: "CPU in ms".to_owned(),
            axis: "pods",
            lines: vec![Line { name: "controller", points: vec![(1000.0, 2.0), (15000.0, 2.5)] }],
            band: Some((1.6, 2.4, "within 20 %")),
        };
        let drawn = svg(&[chart.clone(), chart]);
        assert_eq!(drawn.matches("<circle").count(), 4);
        assert!(drawn.contains(r#"viewBox="0 0 640 560""#) && drawn.ends_with("</svg>\n"));
        let scale = Scale { right: 20000.0, top: 3.0 };
        assert_eq!(scale.place((0.0, 3.0)), (LEFT, TOP));
        assert_eq!(scale.place((20000.0, 0.0)), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    }

    #[test]
    fn the_edge_of_a_chart_is_a_round_number() {
        for (value, edge) in [(2.5, 3.0), (15000.0, 16000.0), (0.7, 0.8), (100.0, 100.0)] {
            assert!((round_up(value) - edge).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }
}
