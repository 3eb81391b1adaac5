//! Bars as SVG: the first figure of each program, with the spread of its rounds.

use std::fmt::Write as _;

use crate::peer::Role;
use crate::stage::Row;

const LEFT: f64 = 190.0;
const BARS: f64 = 420.0;
const WIDTH: f64 = LEFT + BARS + 80.0;
const LINE: f64 = 24.0;
const TOP: f64 = 56.0;

/// A plot of the rows that have something to show.
pub(crate) fn bars(title: &str, rows: &[Row]) -> String {
    let rows: Vec<_> = rows.iter().filter(|row| row.figures[0].1.median() > 0.0).collect();
    let Some(first) = rows.first() else { return String::new() };
    let most = rows.iter().map(|row| row.figures[0].1.max()).fold(0.0, f64::max);
    let height = TOP + LINE * rows.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>\n\
         <text x=\"12\" y=\"42\" fill=\"#555\">{}; the line is from the smallest to the largest of the rounds</text>\n",
        escape(title),
        escape(first.figures[0].0)
    );
    for (index, row) in rows.iter().enumerate() {
        let samples = &row.figures[0].1;
        let [median, min, max] = [samples.median(), samples.min().max(0.0), samples.max()].map(|x| x / most * BARS);
        let (top, middle) = (TOP + LINE * index as f64, TOP + LINE * (index as f64 + 0.5) - 2.0);
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{top}\" width=\"{median:.1}\" height=\"{}\" fill=\"{}\"/>\n\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#222\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{:.2}</text>",
            LEFT - 8.0,
            middle + 5.0,
            escape(&row.program),
            LINE - 5.0,
            colour(row.role),
            LEFT + min,
            LEFT + max,
            LEFT + max.max(median) + 6.0,
            middle + 5.0,
            samples.median()
        )
        .expect("text can be written");
    }
    svg + "</svg>\n"
}

const fn colour(role: Role) -> &'static str {
    match role {
        Role::Ours => "#2f6db3",
        Role::Peer => "#9aa5b1",
        Role::Floor => "#d9dee3",
        Role::Direct => "#e2c27b",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
