//! `ringwall top`: a running ringwall, watched in a terminal.
//!
//! It asks over the admin socket what `ringwall ctl` asks, and knows nothing else. One thread asks and hears signals, one
//! reads keys, and this one draws: nothing waits for anything but what happens next. Two samples become rates in `model`,
//! keys change a `screen`, and both become cells in `view`: all three are pure, and their tests hold literal screens.

mod change;
mod columns;
mod counters;
#[cfg(test)]
mod examples;
mod figures;
mod keys;
mod model;
mod panes;
mod screen;
mod sharing;
mod terminal;
mod view;
mod watcher;

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

use clap::Args;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_crossterm::crossterm::event::{self, Event, KeyEvent};
use ratatui_crossterm::crossterm::terminal as kernel;
use tokio::sync::mpsc::Sender;

use self::keys::Wish;
use self::model::{Picture, Sample};
use self::screen::{Link, Notice, Screen};
use self::terminal::Console;
use self::view::Scene;
use self::watcher::{Narrowing, Order};
use super::ctl::CtlError;
use super::place::Place;
use crate::config::parse_duration;
use crate::io::sys;

/// The shortest and the longest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);
/// Columns and lines of a frame for scripts.
const FRAME: (u16, u16) = (80, 24);
/// What has happened and was not yet looked at, at most: whoever has more to tell waits.
const HAPPENINGS_MAX: usize = 64;

/// What to watch, and how.
#[derive(Debug, Args)]
pub struct Top {
    /// Where to ask.
    #[command(flatten)]
    pub place: Place,

    /// How often to look, 200ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// Print one frame as text after one interval, and end: of the terminal's size, or 80 by 24 where there is none
    #[arg(long)]
    pub once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let allowed = INTERVAL_MIN..=INTERVAL_MAX;
    let interval = parse_duration(text).filter(|interval| allowed.contains(interval));
    interval.ok_or_else(|| "it must be a duration of 200ms to 1h, such as 1s".to_owned())
}

/// Why there is nothing to watch.
#[derive(Debug)]
pub enum TopError {
    /// ringwall cannot be asked.
    Ctl(CtlError),
    /// There is no terminal.
    NoTerminal,
    /// The terminal or the system fails.
    Io(io::Error),
}

impl fmt::Display for TopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ctl(error) => error.fmt(f),
            Self::NoTerminal => {
                f.write_str("standard input and output are no terminal: --once prints one frame as text")
            }
            Self::Io(error) => write!(f, "the terminal cannot be used: {error}"),
        }
    }
}

impl std::error::Error for TopError {}

impl From<CtlError> for TopError {
    fn from(error: CtlError) -> Self {
        Self::Ctl(error)
    }
}

impl From<io::Error> for TopError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the threads beside this one tell it.
#[derive(Debug)]
enum Happening {
    Key(KeyEvent),
    Resized,
    Sampled(Box<Sample>),
    /// ringwall does not answer.
    Lost(String),
    /// What became of a change.
    Done(Result<String, String>),
    /// A signal, or the terminal is gone.
    Ended,
}

impl Top {
    /// Watches until the person at the terminal has seen enough; with `--once`, gives what is to be printed.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn run(&self) -> Result<Option<String>, TopError> {
        if self.once {
            return self.frame().map(Some);
        }
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(TopError::NoTerminal);
        }
        self.live().map(|()| None)
    }

    fn frame(&self) -> Result<String, TopError> {
        let address = self.place.address()?;
        let (first, second) = watcher::twice(&address, self.interval)?;
        let picture = Picture::of(second, Some(&Picture::of(first, None)));
        let terminal = io::stdout().is_terminal().then(|| kernel::size().ok()).flatten();
        let (width, height) = terminal.unwrap_or(FRAME);
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let scene = Scene {
            screen: &Screen::new(),
            picture: Some(&picture),
            now: sys::now(),
            interval: self.interval,
            place: &address.to_string(),
            colours: false,
            live: false,
        };
        scene.draw(&mut buffer);
        Ok(view::text(&buffer))
    }

    fn live(&self) -> Result<(), TopError> {
        let address = self.place.address()?;
        let place = address.to_string();
        let (tell, happenings) = mpsc::sync_channel(HAPPENINGS_MAX);
        let orders = watcher::start(address, self.interval, tell.clone())?;
        let mut console = Console::take()?;
        thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&tell))?;
        let mut watch = Watch { screen: Screen::new(), picture: None, orders, narrowing: None };
        let colours = colours(std::env::var_os("NO_COLOR").as_deref());
        loop {
            console.show(|buffer| {
                let scene = Scene {
                    screen: &watch.screen,
                    picture: watch.picture.as_ref(),
                    now: sys::now(),
                    interval: self.interval,
                    place: &place,
                    colours,
                    live: true,
                };
                scene.draw(buffer);
            })?;
            // What has come meanwhile needs no frame of its own.
            let Ok(first) = happenings.recv() else { return Ok(()) };
            for happening in std::iter::once(first).chain(happenings.try_iter().take(HAPPENINGS_MAX)) {
                match watch.take(happening) {
                    Wish::Quit => return Ok(()),
                    Wish::Redraw => console.forget()?,
                    Wish::Nothing | Wish::Do(_) => {}
                }
            }
        }
    }
}

/// Whether colours are wanted: <https://no-color.org>.
fn colours(no_color: Option<&std::ffi::OsStr>) -> bool {
    no_color.is_none_or(std::ffi::OsStr::is_empty)
}

fn read_keys(tell: &SyncSender<Happening>) {
    loop {
        let happening = match event::read() {
            Ok(Event::Key(key)) => Happening::Key(key),
            Ok(Event::Resize(..)) => Happening::Resized,
            Ok(_) => continue,
            Err(_) => Happening::Ended,
        };
        let ends = matches!(happening, Happening::Ended);
        if tell.send(happening).is_err() || ends {
            return;
        }
    }
}

/// What is watched, and the way to the thread that asks.
struct Watch {
    screen: Screen,
    picture: Option<Picture>,
    orders: Sender<Order>,
    /// What sessions are narrowed to at the moment.
    narrowing: Narrowing,
}

impl Watch {
    /// Takes note of what has happened; gives what is left to do.
    fn take(&mut self, happening: Happening) -> Wish {
        match happening {
            Happening::Ended => return Wish::Quit,
            Happening::Resized => {}
            Happening::Sampled(sample) => {
                self.picture = Some(Picture::of(*sample, self.picture.as_ref()));
                self.screen.link = Link::Good;
            }
            Happening::Lost(why) => {
                let since = match self.screen.link {
                    Link::Lost { since, .. } => since,
                    Link::Good => sys::now(),
                };
                self.screen.link = Link::Lost { since, why };
            }
            Happening::Done(done) => {
                let good = done.is_ok();
                let text = done.unwrap_or_else(|why| why);
                self.screen.notice = Some(Notice { good, text });
            }
            Happening::Key(key) => {
                let wish = self.screen.press(key, self.picture.as_ref());
                let Wish::Do(change) = wish else {
                    self.narrow();
                    return wish;
                };
                self.order(Order::Change(change));
            }
        }
        Wish::Nothing
    }

    /// Has ringwall asked for what the filter says.
    fn narrow(&mut self) {
        let narrowing = self.screen.narrowing(self.picture.as_ref());
        if narrowing != self.narrowing && self.order(Order::Narrow(narrowing.clone())) {
            self.narrowing = narrowing;
        }
    }

    fn order(&mut self, order: Order) -> bool {
        let taken = self.orders.try_send(order).is_ok();
        if !taken {
            let text = "Not done: ringwall is still busy with what was asked before".to_owned();
            self.screen.notice = Some(Notice { good: false, text });
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use ratatui_crossterm::crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    #[test]
    fn an_interval_is_a_duration_within_bounds() {
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("200ms"), Ok(Duration::from_millis(200)));
        for wrong in ["", "1", "199ms", "2h", "-1s"] {
            assert_eq!(interval(wrong), Err("it must be a duration of 200ms to 1h, such as 1s".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn ringwall_is_asked_for_what_a_filter_says_and_for_everything_once_it_is_taken_back() {
        let (orders, mut taken) = tokio::sync::mpsc::channel(16);
        let picture = Some(examples::picture());
        let mut watch = Watch { screen: Screen::new(), picture, orders, narrowing: None };
        let mut asked = |keys: &[KeyCode]| {
            for &key in keys {
                watch.take(Happening::Key(KeyEvent::new(key, KeyModifiers::NONE)));
            }
            let orders = std::iter::from_fn(|| taken.try_recv().ok());
            let narrowing = |order| match order {
                Order::Narrow(narrowing) => narrowing,
                Order::Change(change) => panic!("{change:?}"),
            };
            orders.map(narrowing).collect::<Vec<_>>()
        };
        // Not before it is a whole name.
        assert_eq!(asked(&"/publi".chars().map(KeyCode::Char).collect::<Vec<_>>()), []);
        assert_eq!(asked(&[KeyCode::Char('c')]), [Some(("listener", "public".to_owned()))]);
        assert_eq!(asked(&[KeyCode::Enter]), []);
        assert_eq!(asked(&[KeyCode::Esc]), [None]);
    }

    #[test]
    fn no_color_takes_colours_away_unless_it_is_empty() {
        for (value, wanted) in [(None, true), (Some(""), true), (Some("1"), false), (Some("0"), false)] {
            assert_eq!(colours(value.map(AsRef::as_ref)), wanted, "{value:?}");
        }
    }
}
