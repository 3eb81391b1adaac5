//! Frames as they are seen, to the last cell.

use std::time::Duration;

use ratatui_core::backend::TestBackend;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

use super::*;
use crate::cli::top::change::Change;
use crate::cli::top::examples::{picture, session};
use crate::cli::top::screen::Notice;

fn frame_of(screen: &Screen, picture: Option<&Picture>, (width, height): (u16, u16), colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let scene = Scene {
        screen,
        picture,
        now: Time::from_nanos(9_000_000_000),
        interval: Duration::from_secs(1),
        place: "unix:/run/ringwall/admin.sock",
        colours,
        live: true,
    };
    terminal.draw(|frame| scene.draw(frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn shown(screen: &Screen, picture: Option<&Picture>, size: (u16, u16)) -> String {
    text(&frame_of(screen, picture, size, false))
}

fn line(frame: &str, number: usize) -> &str {
    frame.lines().nth(number).unwrap()
}

#[test]
fn a_terminal_of_80_by_24_shows_everything() {
    let mut screen = Screen::new();
    screen.mark(1, &picture());
    println!("{}", shown(&screen, Some(&picture()), (80, 24)));
}

#[test]
fn a_wide_terminal_says_more_of_sessions_and_servers() {
    println!("{}", shown(&Screen::new(), Some(&picture()), (140, 24)));
}

#[test]
fn a_narrow_terminal_keeps_what_matters_most() {
    println!("{}", shown(&Screen::new(), Some(&picture()), (44, 20)));
    println!("{}", shown(&Screen::new(), Some(&picture()), (30, 11)));
}
