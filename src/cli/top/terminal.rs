//! The terminal, taken over and given back as it was: when the program ends, fails or panics.

use std::io::{self, Stdout};
use std::panic;

use ratatui_core::buffer::Buffer;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// A terminal that is ours until this is dropped.
pub(super) struct Console(Terminal<CrosstermBackend<Stdout>>);

impl Console {
    /// Takes over the terminal of standard output.
    pub(super) fn take() -> io::Result<Self> {
        let before = panic::take_hook();
        // Without unwinding nothing is dropped; and the message is to be read on the screen that stays.
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
        enable_raw_mode()?;
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        // Not before raw mode is on: what was not taken is not given back.
        taken.map(Self).inspect_err(|_| give_back())
    }

    /// Shows what `draw` puts into an empty buffer of the terminal's size. Only cells that have changed are written.
    pub(super) fn show(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.0.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Forgets what is shown, so that the next frame is written whole.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.0.clear()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back. One that is gone needs nothing.
fn give_back() {
    drop(execute!(io::stdout(), Show, LeaveAlternateScreen));
    drop(disable_raw_mode());
}
