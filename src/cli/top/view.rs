//! What is seen, drawn into a buffer of cells.
//!
//! It is pure. All text passes through the buffer, which keeps control characters out: what a client's certificate or a
//! server says cannot reach the terminal as a command. It is drawn in ASCII, so that it looks the same everywhere.

use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};

use super::columns::{Fitted, Tone};
use super::counters::Flows;
use super::figures;
use super::model::Picture;
use super::panes;
use super::screen::{Link, Mode, Pane, Screen};
use crate::config::show_duration;
use crate::time::Time;

/// Lines above the panes.
const HEAD: u16 = 3;
/// Rows of sessions that other panes leave, where there is room.
const SESSIONS_MIN: usize = 5;
/// With fewer lines than these between head and foot there is one pane only.
const BODY_MIN: u16 = 12;

/// The most important first.
const KEYS: &[&str] =
    &["q quit", "? help", "Tab pane", "/ filter", "s sort", "x close", "d drain", "e enable", "Esc no filter, no mark"];

const HELP: &[&str] = &[
    "Up, Down, PgUp, PgDn, Home, End   mark a row; j, k, g, G do the same",
    "Tab, Left, Right                  go to another pane",
    "s        sort sessions: busiest, oldest, longest idle, most bytes, client",
    "/        show only sessions with this in the client's address or the listener",
    "Esc      no filter, no mark",
    "x        close the marked session",
    "d, e     drain or enable the marked listener or server: a drained one gets no",
    "         new sessions, and those that it has end when they are owed nothing",
    "Ctrl-L   draw everything again",
    "q        quit",
    "",
    "x, d and e need admin.allow_changes = true in ringwall's configuration.",
    "IN is from clients and servers, OUT to them, as on the wire. A stalled session",
    "has held bytes for 5 s or more that nobody takes. Where clients share",
    "connections, SHARED/s are requests over these and SHARE is their part of all,",
    "BATCH is how many leave together, and LATENCY how long an answer takes.",
];

/// All that a frame depends on.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) screen: &'a Screen,
    /// None until ringwall has answered.
    pub(super) picture: Option<&'a Picture>,
    pub(super) now: Time,
    pub(super) interval: Duration,
    /// Where ringwall is asked.
    pub(super) place: &'a str,
    pub(super) colours: bool,
    /// Whether there are keys to press.
    pub(super) live: bool,
}

impl Scene<'_> {
    /// Draws a frame over the whole of an empty buffer.
    pub(super) fn draw(&self, buffer: &mut Buffer) {
        let Rect { height, .. } = buffer.area;
        self.draw_head(buffer);
        let foot = height.saturating_sub(u16::from(self.live));
        let body = (HEAD + 1, foot);
        match (&self.screen.mode, self.picture) {
            (Mode::Help, _) => {
                for (y, line) in (body.0..body.1).zip(HELP) {
                    put(buffer, 0, y, line, Style::new());
                }
            }
            (_, Some(picture)) => self.draw_panes(buffer, picture, body),
            (_, None) => {}
        }
        if self.live && height > 0 {
            self.draw_foot(buffer, height - 1);
        }
    }

    fn draw_head(&self, buffer: &mut Buffer) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match (&self.screen.link, self.picture) {
            (Link::Lost { since, why }, _) => {
                let seconds = figures::age(self.now.since(*since).as_secs_f64());
                let text = format!("NO ANSWER for {seconds}, asking again every second: {why}");
                put(buffer, 0, 0, &text, Tone::Bad.style(self.colours));
                if self.picture.is_none() {
                    for (y, line) in (2..).zip(wrapped(why, buffer.area.width)) {
                        put(buffer, 0, y, &line, Style::new());
                    }
                }
            }
            (Link::Good, None) => put(buffer, 0, 0, &format!("Asking {} ...", self.place), bold),
            (Link::Good, Some(picture)) => {
                let status = &picture.sample.status;
                let mut text = format!("ringwall {}: {}", status.version, status.phase);
                if !status.reload_success {
                    text += ", LAST RELOAD FAILED";
                }
                put(buffer, 0, 0, &text, bold);
                let every = format!("every {}", show_duration(self.interval));
                let right = if status.changes_allowed { every } else { format!("changes are off, {every}") };
                put_right(buffer, 0, text.chars().count(), &right);
            }
        }
        if let Some(picture) = self.picture {
            self.draw_totals(buffer, picture);
        }
    }

    fn draw_totals(&self, buffer: &mut Buffer, picture: &Picture) {
        let status = &picture.sample.status;
        let sessions: u64 = status.listeners.iter().map(|listener| listener.connections).sum();
        let rate =
            |of: fn(&Flows) -> f64| picture.rates.as_ref().map_or("-".to_owned(), |rates| figures::rate(of(rates)));
        let bytes = |of: fn(&Flows) -> f64| {
            let bytes = picture.rates.as_ref().map_or("-".to_owned(), |rates| figures::bytes(of(rates)) + "/s");
            format!("{bytes:>10}")
        };
        let totals = [
            format!("Sessions {sessions}, {} new/s", rate(|rates| rates.connections)),
            format!(
                "Handshakes {}/s, {} failed/s",
                rate(|rates| rates.handshakes),
                rate(|rates| rates.handshakes_failed)
            ),
            format!("Rejected {}/s", rate(|rates| rates.rejected)),
        ];
        put_parts(buffer, 1, &totals, 3, Style::new());
        let traffic = [
            format!("Clients  in {}  out {}", bytes(|rates| rates.from_clients), bytes(|rates| rates.to_clients)),
            format!("Servers  in {}  out {}", bytes(|rates| rates.from_servers), bytes(|rates| rates.to_servers)),
        ];
        put_parts(buffer, 2, &traffic, 3, Style::new());
    }

    fn draw_panes(&self, buffer: &mut Buffer, picture: &Picture, (top, end): (u16, u16)) {
        let mut y = top;
        for (pane, rows, gap) in self.layout(picture, end.saturating_sub(top)) {
            if y >= end {
                break;
            }
            y = self.draw_pane(buffer, picture, pane, (y, rows.min(usize::from(end - y).saturating_sub(1)))) + gap;
        }
    }

    /// The panes, how many rows each gets, and how many empty lines follow it.
    fn layout(&self, picture: &Picture, lines: u16) -> Vec<(Pane, usize, u16)> {
        let lines = usize::from(lines);
        if lines < usize::from(BODY_MIN) {
            let title = 1 + usize::from(self.screen.pane == Pane::Sessions);
            return vec![(self.screen.pane, lines.saturating_sub(title), 0)];
        }
        let mut others = Pane::shown(Some(picture));
        others.retain(|&pane| pane != Pane::Sessions);
        let wanted: Vec<_> = others.iter().map(|&pane| panes::count(pane, picture, self.screen)).collect();
        // Titles of the others, and the two lines over the sessions.
        let titles = others.len() + 2;
        let room = lines.saturating_sub(titles + SESSIONS_MIN);
        let mut given = vec![0; others.len()];
        for _ in 0..room {
            let next = (0..given.len()).filter(|&index| given[index] < wanted[index]).min_by_key(|&index| given[index]);
            let Some(next) = next else { break };
            given[next] += 1;
        }
        let used = titles + given.iter().sum::<usize>();
        let gap = lines >= used + others.len() + SESSIONS_MIN;
        let used = used + if gap { others.len() } else { 0 };
        let mut layout: Vec<_> =
            others.into_iter().zip(given).map(|(pane, rows)| (pane, rows, u16::from(gap))).collect();
        layout.push((Pane::Sessions, lines - used, 0));
        layout
    }

    /// Draws a pane from the line `y` on with so many rows; gives the line behind it.
    fn draw_pane(&self, buffer: &mut Buffer, picture: &Picture, pane: Pane, (mut y, rows): (u16, usize)) -> u16 {
        let width = buffer.area.width;
        let fitted = Fitted::new(pane.columns(), width);
        let count = panes::count(pane, picture, self.screen);
        if pane == Pane::Sessions {
            put_parts(buffer, y, &self.sessions_title(picture, count), 3, Style::new());
            y += 1;
        }
        if y >= buffer.area.height {
            return y;
        }
        let cut = count > rows && pane != Pane::Sessions;
        let more = if cut { format!(" {rows}/{count}") } else { String::new() };
        fitted.draw_titles(buffer, y, pane.columns(), &more);
        let here = self.live && self.screen.pane == pane;
        if here {
            put(buffer, 0, y, ">", Style::new());
        }
        buffer.set_style(Rect::new(0, y, width, 1), Style::new().add_modifier(Modifier::REVERSED));
        y += 1;
        let marked = self.screen.marked(pane, picture);
        let from = marked.map_or(0, |place| place.saturating_sub(rows.saturating_sub(1)));
        for (place, cells) in (from..).zip(panes::rows(pane, picture, self.screen, &fitted, (from, rows))) {
            if y >= buffer.area.height {
                break;
            }
            fitted.draw(buffer, y, pane.columns(), &cells, self.colours);
            if here && marked == Some(place) {
                put(buffer, 0, y, ">", Style::new());
                buffer.set_style(Rect::new(0, y, width, 1), Style::new().add_modifier(Modifier::BOLD));
            }
            y += 1;
        }
        y
    }

    /// What is said of sessions, the most important first.
    fn sessions_title(&self, picture: &Picture, count: usize) -> Vec<String> {
        let mut parts = vec![format!("{count} sessions")];
        if !self.screen.filter.is_empty() {
            parts.push(format!("with \"{}\"", self.screen.filter));
        }
        if picture.sample.counters.stalled > 0.0 {
            parts.push(format!("{} stalled in all", picture.sample.counters.stalled));
        }
        if !picture.sample.complete {
            let fetched = picture.sample.sessions.len();
            parts.push(format!("only {fetched} looked at: filter by an address or listener"));
        }
        parts.push(self.screen.order.words().to_owned());
        parts
    }

    fn draw_foot(&self, buffer: &mut Buffer, y: u16) {
        let (text, tone) = match (&self.screen.mode, &self.screen.notice) {
            (Mode::Watching, None) => return put_parts(buffer, y, KEYS, 2, Style::new()),
            (Mode::Watching, Some(notice)) => (notice.text.clone(), if notice.good { Tone::Good } else { Tone::Bad }),
            (Mode::Asking(change), _) => (format!("{change}? y/n"), Tone::Bad),
            (Mode::Filtering(_), _) => {
                (format!("Client or listener: {}_   Enter keeps it, Esc does not", self.screen.filter), Tone::Plain)
            }
            (Mode::Help, _) => ("Any key goes back".to_owned(), Tone::Plain),
        };
        put(buffer, 0, y, &text, tone.style(self.colours));
    }
}

/// Puts text where there is room for it.
fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    let Rect { width, height, .. } = buffer.area;
    if x < width && y < height {
        buffer.set_stringn(x, y, text, usize::from(width - x), style);
    }
}

/// Puts as many of the parts into a line as there is room for, the first at any rate.
fn put_parts<T: AsRef<str>>(buffer: &mut Buffer, y: u16, parts: &[T], gap: usize, style: Style) {
    let mut x = 0;
    for part in parts.iter().map(AsRef::as_ref) {
        let length = part.chars().count();
        if x > 0 && x + length > usize::from(buffer.area.width) {
            break;
        }
        put(buffer, u16::try_from(x).unwrap_or(u16::MAX), y, part, style);
        x += length + gap;
    }
}

/// The words of a text in lines of this width; a longer word is cut.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= usize::from(width) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Puts text at the end of a line, when it leaves two cells behind what stands there.
fn put_right(buffer: &mut Buffer, y: u16, taken: usize, text: &str) {
    let length = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let Some(x) = buffer.area.width.checked_sub(length) else { return };
    if usize::from(x) >= taken + 2 {
        put(buffer, x, y, text, Style::new());
    }
}

/// The buffer as lines of text without the spaces at their ends.
pub(super) fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content.chunks(width).map(|cells| {
        let line: String = cells.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests;
