//! Pictures of a terminal as an animated SVG. Pure: the same pictures give the same bytes.
//!
//! The pictures lie side by side and move past the window in steps. Each different line is written once. A
//! viewer that does not animate shows the picture with the most lines.

use std::{collections::HashMap, fmt::Write};

use super::{
    COLUMNS, Picture, READING,
    terminal::{Ink, Row, Span},
};

/// Width of a character.
const CELL: f64 = 8.4;
/// Height of a line.
const LINE: usize = 19;
/// Space around the text.
const MARGIN: usize = 16;
/// Height of the bar of the window.
const BAR: usize = 28;

/// Draws the pictures.
pub(crate) fn svg(pictures: &[Picture], title: &str) -> String {
    let lines = pictures.iter().map(|picture| picture.rows.len()).max().unwrap_or_default();
    let width = (cells(COLUMNS) + 2.0 * pixels(MARGIN)).ceil();
    let height = BAR + lines * LINE + MARGIN;
    let mut known: HashMap<&Row, usize> = HashMap::new();
    let (mut definitions, mut frames) = (String::new(), String::new());
    for (place, picture) in pictures.iter().enumerate() {
        let _ = write!(frames, "<g transform=\"translate({} 0)\">", number(width * pixels(place)));
        for (line, row) in picture.rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let next = known.len();
            let id = *known.entry(row).or_insert_with(|| {
                let _ = writeln!(definitions, "<g id=\"l{next}\">{}</g>", text(row));
                next
            });
            let _ = write!(frames, "<use href=\"#l{id}\" y=\"{}\"/>", BAR + (line + 1) * LINE);
        }
        frames.push_str("</g>\n");
    }
    let (steps, seconds) = steps(pictures, width);
    let fullest = pictures.iter().position(|picture| picture.rows.len() == lines).unwrap_or_default();
    let still = number(width * pixels(fullest));
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" xml:space="preserve">
<title>{title}</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}}
.b{{font-weight:bold}}.f{{fill:#6e7681}}.c1{{fill:#ff7b72}}.c2{{fill:#3fb950}}.c3{{fill:#d29922}}.c4{{fill:#58a6ff}}.c5{{fill:#bc8cff}}.c6{{fill:#39c5cf}}
#m{{transform:translateX(-{still}px);animation:m {seconds}s steps(1,end) infinite}}
@keyframes m{{{steps}}}
@media (prefers-reduced-motion:reduce){{#m{{animation:none}}}}
</style>
<defs>
{definitions}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="18" cy="15" r="5" fill="#ff5f57"/><circle cx="36" cy="15" r="5" fill="#febc2e"/><circle cx="54" cy="15" r="5" fill="#28c840"/>
<g id="m">
{frames}</g>
</svg>
"##,
        width = number(width),
        title = escaped(title),
    )
}

/// Returns the steps of the animation, and its duration in seconds.
fn steps(pictures: &[Picture], width: f64) -> (String, String) {
    let end = pictures.last().map(|last| last.from).unwrap_or_default() + READING;
    let mut steps = String::new();
    for (place, picture) in pictures.iter().enumerate() {
        let share = picture.from.as_secs_f64() / end.as_secs_f64() * 100.0;
        let _ =
            write!(steps, "{}%{{transform:translateX(-{}px)}}", number(share), number(width * pixels(place)));
    }
    let last = number(width * pixels(pictures.len().saturating_sub(1)));
    let _ = write!(steps, "100%{{transform:translateX(-{last}px)}}");
    (steps, number(end.as_secs_f64()))
}

fn text(row: &Row) -> String {
    row.iter().map(span).collect()
}

/// Returns one text. Its length is given, so that columns stay aligned in every font.
fn span(span: &Span) -> String {
    let class = class(span.ink);
    let class = if class.is_empty() { class } else { format!(" class=\"{class}\"") };
    let x = number(pixels(MARGIN) + cells(span.column));
    let length = number(cells(span.text.chars().count()));
    format!("<text x=\"{x}\" textLength=\"{length}\"{class}>{}</text>", escaped(&span.text))
}

fn class(ink: Ink) -> String {
    let colour = ink.colour.map(|colour| format!("c{colour}"));
    let words = [ink.bold.then(|| "b".to_owned()), ink.faint.then(|| "f".to_owned()), colour];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn cells(columns: usize) -> f64 {
    pixels(columns) * CELL
}

fn pixels(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns a number with at most two decimals.
fn number(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn picture(seconds: u64, lines: &[&str]) -> Picture {
        let row = |text: &&str| vec![Span { column: 0, text: (*text).to_owned(), ink: Ink::default() }];
        Picture { from: Duration::from_secs(seconds), rows: lines.iter().map(row).collect() }
    }

    #[test]
    fn each_different_line_is_written_once_and_the_pictures_follow_each_other() {
        let drawn = svg(&[picture(0, &["a<b", "same"]), picture(4, &["next", "same"])], "a drain");
        assert_eq!(drawn.matches(">same<").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("href=\"#l1\"").count(), 2, "{drawn}");
        assert!(
            drawn.contains("a&lt;b") && drawn.contains("33.33%{transform:translateX(-906px)}"),
            "{drawn}"
        );
        assert!(drawn.contains("animation:m 12s"), "{drawn}");
        assert_eq!(drawn, svg(&[picture(0, &["a<b", "same"]), picture(4, &["next", "same"])], "a drain"));
    }
}
