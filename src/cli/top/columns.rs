//! Rows in columns that fit the width there is.

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};

/// What a text says about what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
}

impl Tone {
    /// Without colours, what is bad is bold.
    pub(super) const fn style(self, colours: bool) -> Style {
        match (self, colours) {
            (Self::Plain, _) | (Self::Good | Self::Warning, false) => Style::new(),
            (Self::Good, true) => Style::new().fg(Color::Green),
            (Self::Warning, true) => Style::new().fg(Color::Yellow),
            (Self::Bad, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (Self::Bad, false) => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// A text in a column.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn plain(text: impl ToString) -> Self {
        Self { text: text.to_string(), tone: Tone::Plain }
    }

    pub(super) fn toned(text: impl ToString, tone: Tone) -> Self {
        Self { text: text.to_string(), tone }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    /// Cells that it needs at least.
    width: u16,
    /// Whether numbers stand in it.
    right: bool,
    /// Whether it takes what is left over.
    grows: bool,
    /// Where there is too little room, the columns with the highest rank go first; 0 stays.
    rank: u8,
}

impl Column {
    pub(super) const fn text(title: &'static str, width: u16, rank: u8) -> Self {
        Self { title, width, right: false, grows: false, rank }
    }

    pub(super) const fn number(title: &'static str, width: u16, rank: u8) -> Self {
        Self { title, width, right: true, grows: false, rank }
    }

    /// The same, taking what is left over.
    pub(super) const fn growing(mut self) -> Self {
        self.grows = true;
        self
    }
}

/// Columns as they fit: each with its place among all and its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fitted(Vec<(usize, u16)>);

/// In front of each row, for the mark.
const MARGIN: u16 = 2;

impl Fitted {
    /// Fits columns into `width` cells.
    pub(super) fn new(columns: &[Column], width: u16) -> Self {
        let mut kept: Vec<usize> = (0..columns.len()).collect();
        let needed = |kept: &[usize]| {
            let widths: u16 = kept.iter().map(|&index| columns[index].width + 1).sum();
            MARGIN + widths.saturating_sub(1)
        };
        while needed(&kept) > width {
            let last = kept.iter().copied().filter(|&index| columns[index].rank > 0).max_by_key(|&i| columns[i].rank);
            let Some(last) = last else { break };
            kept.retain(|&index| index != last);
        }
        let spare = width.saturating_sub(needed(&kept));
        let growing = u16::try_from(kept.iter().filter(|&&index| columns[index].grows).count()).unwrap_or(1);
        let mut odd = spare.checked_rem(growing).unwrap_or(0);
        let each = spare.checked_div(growing).unwrap_or(0);
        let fitted = kept.into_iter().map(|index| {
            let column = columns[index];
            let more = if column.grows { each + std::mem::take(&mut odd) } else { 0 };
            (index, column.width + more)
        });
        Self(fitted.collect())
    }

    /// The width of the column at this place, 0 when it has none.
    pub(super) fn width(&self, place: usize) -> u16 {
        self.0.iter().find(|(index, _)| *index == place).map_or(0, |(_, width)| *width)
    }

    /// Draws the titles, `more` behind the first.
    pub(super) fn draw_titles(&self, buffer: &mut Buffer, y: u16, columns: &[Column], more: &str) {
        let mut titles: Vec<Cell> = columns.iter().map(|column| Cell::plain(column.title)).collect();
        if let Some((first, _)) = self.0.first() {
            titles[*first].text += more;
        }
        self.draw(buffer, y, columns, &titles, false);
    }

    /// Draws a row of cells, one for each column of all.
    pub(super) fn draw(&self, buffer: &mut Buffer, y: u16, columns: &[Column], cells: &[Cell], colours: bool) {
        let mut x = MARGIN;
        for &(index, width) in &self.0 {
            let text = cut(&cells[index].text, width);
            let length = u16::try_from(text.chars().count()).unwrap_or(width);
            let shift = if columns[index].right { width.saturating_sub(length) } else { 0 };
            let room = buffer.area.width.saturating_sub(x + shift).min(width);
            if room > 0 {
                buffer.set_stringn(x + shift, y, &text, usize::from(room), cells[index].tone.style(colours));
            }
            x += width + 1;
        }
    }
}

/// The text, or its beginning and a sign that there is more.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("NAME", 6, 0).growing(),
        Column::text("ADDRESS", 10, 2),
        Column::number("AGE", 4, 1),
        Column::number("BYTES", 5, 0).growing(),
    ];

    #[test]
    fn columns_go_by_rank_and_what_is_left_over_goes_to_those_that_grow() {
        for (width, fitted) in [
            (35, &[(0, 9), (1, 10), (2, 4), (3, 7)][..]),
            (30, &[(0, 6), (1, 10), (2, 4), (3, 5)]),
            (29, &[(0, 11), (2, 4), (3, 10)]),
            (18, &[(0, 8), (3, 7)]),
            (5, &[(0, 6), (3, 5)]),
        ] {
            assert_eq!(Fitted::new(&COLUMNS, width).0, fitted, "{width}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(cut("127.0.0.1", 9), "127.0.0.1");
        assert_eq!(cut("127.0.0.10", 9), "127.0.0.~");
        assert_eq!(cut("ab", 1), "~");
    }
}
