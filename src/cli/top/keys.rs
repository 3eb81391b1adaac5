//! What each key does.

#![expect(clippy::wildcard_enum_match_arm, reason = "a key without a meaning does nothing, whichever it is")]

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::change::Change;
use super::model::Picture;
use super::screen::{Mode, Notice, Pane, Screen};

/// Characters of a filter at most.
const FILTER_MAX: usize = 64;
/// Rows of a page.
const PAGE: isize = 10;
/// Why nothing is changed.
const CHANGES_OFF: &str = "Changes are off: admin.allow_changes = true would allow them";

/// What a key asks of the program beyond what it does to the screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Draw every cell again.
    Redraw,
    Do(Change),
}

impl Screen {
    /// Does what `key` means.
    pub(super) fn press(&mut self, key: KeyEvent, picture: Option<&Picture>) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('l') => Wish::Redraw,
                _ => Wish::Nothing,
            };
        }
        self.notice = None;
        match std::mem::replace(&mut self.mode, Mode::Watching) {
            Mode::Watching => return self.watch(key.code, picture),
            Mode::Filtering(before) => self.filter(key.code, before),
            Mode::Asking(change) => match key.code {
                KeyCode::Char('y' | 'Y') => return Wish::Do(change),
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter => {}
                _ => self.mode = Mode::Asking(change),
            },
            // Any key leaves it.
            Mode::Help => {}
        }
        Wish::Nothing
    }

    fn watch(&mut self, key: KeyCode, picture: Option<&Picture>) -> Wish {
        match key {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/' | 'f') => self.mode = Mode::Filtering(self.filter.clone()),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Tab | KeyCode::Right => self.turn(true, picture),
            KeyCode::BackTab | KeyCode::Left => self.turn(false, picture),
            KeyCode::Esc => {
                self.unmark();
                self.filter.clear();
            }
            _ => {
                if let Some(picture) = picture {
                    return self.on_rows(key, picture);
                }
            }
        }
        Wish::Nothing
    }

    /// Keys that concern rows.
    fn on_rows(&mut self, key: KeyCode, picture: &Picture) -> Wish {
        match key {
            KeyCode::Down | KeyCode::Char('j') => self.mark(1, picture),
            KeyCode::Up | KeyCode::Char('k') => self.mark(-1, picture),
            KeyCode::PageDown => self.mark(PAGE, picture),
            KeyCode::PageUp => self.mark(-PAGE, picture),
            KeyCode::Home | KeyCode::Char('g') => self.mark(isize::MIN, picture),
            KeyCode::End | KeyCode::Char('G') => self.mark(isize::MAX, picture),
            KeyCode::Char(letter @ ('x' | 'd' | 'e')) => match self.change(letter, picture) {
                Ok(change @ (Change::EnableListener(_) | Change::EnableServer { .. })) => return Wish::Do(change),
                Ok(change) => self.mode = Mode::Asking(change),
                Err(why) => self.notice = Some(Notice { good: false, text: why.to_owned() }),
            },
            _ => {}
        }
        Wish::Nothing
    }

    /// What the letter means for the marked row.
    fn change(&self, letter: char, picture: &Picture) -> Result<Change, &'static str> {
        let status = &picture.sample.status;
        if !status.changes_allowed {
            return Err(CHANGES_OFF);
        }
        let place = self.marked(self.pane, picture);
        match (letter, self.pane) {
            ('x', Pane::Sessions) => {
                let index = place.and_then(|place| self.sessions(picture).get(place).copied());
                let session = index.map(|index| &picture.sample.sessions[index]);
                let session = session.ok_or("No session is marked: the arrow keys mark one")?;
                let client = session.client.clone().unwrap_or_else(|| "an unknown client".to_owned());
                Ok(Change::Close { session: session.id.clone(), client })
            }
            ('x', _) => Err("Only sessions are closed: Tab goes to them"),
            (letter, Pane::Listeners | Pane::Multiplexed) => {
                let listener = place.and_then(|place| match self.pane {
                    Pane::Multiplexed => picture.multiplexed().nth(place),
                    _ => status.listeners.get(place),
                });
                let name = listener.ok_or("No listener is marked: the arrow keys mark one")?.name.clone();
                Ok(if letter == 'd' { Change::DrainListener(name) } else { Change::EnableListener(name) })
            }
            (letter, Pane::Servers) => {
                let servers = status.backends.iter().flat_map(|of| of.servers.iter().map(move |server| (of, server)));
                let server = place.and_then(|place| servers.into_iter().nth(place));
                let (backend, server) = server.ok_or("No server is marked: the arrow keys mark one")?;
                let (backend, address) = (backend.name.clone(), server.address.clone());
                Ok(match letter {
                    'd' => Change::DrainServer { backend, address },
                    _ => Change::EnableServer { backend, address },
                })
            }
            (_, Pane::Shards | Pane::Sessions) => {
                Err("Listeners and servers are drained and enabled: Tab goes to them")
            }
        }
    }

    /// A key while a filter is typed. What is typed holds at once.
    fn filter(&mut self, key: KeyCode, before: String) {
        match key {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter = before;
                return;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_MAX => self.filter.push(letter),
            _ => {}
        }
        self.mode = Mode::Filtering(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::examples::{multiplexed, picture};

    fn code(screen: &mut Screen, code: KeyCode) -> Wish {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE), Some(&picture()))
    }

    fn typed(screen: &mut Screen, keys: &str) -> Wish {
        keys.chars().map(|key| code(screen, KeyCode::Char(key))).last().unwrap()
    }

    #[test]
    fn a_session_is_closed_only_when_it_is_marked_and_after_yes() {
        let mut screen = Screen::new();
        assert_eq!(typed(&mut screen, "x"), Wish::Nothing);
        assert_eq!(screen.notice.as_ref().unwrap().text, "No session is marked: the arrow keys mark one");
        typed(&mut screen, "jx");
        let change = Change::Close { session: "0-2-1".to_owned(), client: "10.0.3.9:40002".to_owned() };
        assert_eq!(screen.mode, Mode::Asking(change.clone()));
        // Neither says yes.
        for key in ["n", " n"] {
            assert_eq!(typed(&mut screen, key), Wish::Nothing);
            assert_eq!(screen.mode, Mode::Watching);
            typed(&mut screen, "x");
        }
        assert_eq!(typed(&mut screen, "y"), Wish::Do(change));
        assert_eq!(screen.mode, Mode::Watching);
    }

    #[test]
    fn listeners_and_servers_are_drained_after_yes_and_enabled_at_once() {
        let mut screen = Screen::new();
        screen.pane = Pane::Listeners;
        assert_eq!(typed(&mut screen, "jdy"), Wish::Do(Change::DrainListener("public".to_owned())));
        assert_eq!(typed(&mut screen, "je"), Wish::Do(Change::EnableListener("internal".to_owned())));
        code(&mut screen, KeyCode::Tab);
        let (backend, address) = ("cache".to_owned(), "10.0.0.2:6379".to_owned());
        let drain = Change::DrainServer { backend: backend.clone(), address: address.clone() };
        assert_eq!(typed(&mut screen, "jjdy"), Wish::Do(drain));
        assert_eq!(typed(&mut screen, "e"), Wish::Do(Change::EnableServer { backend, address }));
        assert_eq!(typed(&mut screen, "x"), Wish::Nothing);
        assert_eq!(screen.notice.unwrap().text, "Only sessions are closed: Tab goes to them");
    }

    #[test]
    fn a_multiplexed_listener_is_drained_where_it_is_marked() {
        let picture = multiplexed();
        let mut screen = Screen::new();
        let mut press = |code| screen.press(KeyEvent::new(code, KeyModifiers::NONE), Some(&picture));
        // From sessions over servers.
        for key in [KeyCode::Left, KeyCode::Left, KeyCode::Down, KeyCode::Char('d')] {
            press(key);
        }
        assert_eq!(press(KeyCode::Char('y')), Wish::Do(Change::DrainListener("internal".to_owned())));
        let around: Vec<_> = (0..5)
            .map(|_| {
                screen.turn(true, Some(&picture));
                screen.pane
            })
            .collect();
        assert_eq!(around, [Pane::Servers, Pane::Sessions, Pane::Shards, Pane::Listeners, Pane::Multiplexed]);
        // Where none is left that multiplexes.
        screen.turn(true, None);
        assert_eq!(screen.pane, Pane::Listeners);
    }

    #[test]
    fn without_permission_nothing_is_asked_and_the_key_to_set_is_named() {
        let mut picture = picture();
        picture.sample.status.changes_allowed = false;
        let mut screen = Screen::new();
        for key in ['j', 'x'] {
            let wish = screen.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE), Some(&picture));
            assert_eq!(wish, Wish::Nothing);
        }
        assert_eq!(screen.mode, Mode::Watching);
        assert_eq!(screen.notice.unwrap().text, "Changes are off: admin.allow_changes = true would allow them");
    }

    #[test]
    fn a_filter_holds_while_it_is_typed_and_escape_takes_it_back() {
        let mut screen = Screen::new();
        typed(&mut screen, "/10.q");
        code(&mut screen, KeyCode::Backspace);
        assert_eq!((&*screen.filter, &screen.mode), ("10.", &Mode::Filtering(String::new())));
        code(&mut screen, KeyCode::Enter);
        typed(&mut screen, "/0");
        assert_eq!(screen.filter, "10.0");
        code(&mut screen, KeyCode::Esc);
        assert_eq!((&*screen.filter, &screen.mode), ("10.", &Mode::Watching));
        code(&mut screen, KeyCode::Esc);
        assert_eq!(screen.filter, "");
    }

    #[test]
    fn control_c_quits_in_every_mode_and_q_only_while_watching() {
        for keys in [" ", "?", "/", "jx"] {
            let mut screen = Screen::new();
            typed(&mut screen, keys);
            let wish = screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), None);
            assert_eq!(wish, Wish::Quit);
        }
        assert_eq!(typed(&mut Screen::new(), "q"), Wish::Quit);
        assert_eq!(typed(&mut Screen::new(), "/q"), Wish::Nothing);
    }
}
