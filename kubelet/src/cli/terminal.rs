//! The terminal this runs in: raw while a command in a container has it, and as it was afterwards.

use std::io::{IsTerminal as _, stdin};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// A terminal in raw mode for as long as this lives: every key goes to the other side.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Takes the terminal on standard input; `None` when there is none.
    pub fn take() -> Option<Self> {
        if !is_there() {
            return None;
        }
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Whether there is one on standard input.
pub fn is_there() -> bool {
    stdin().is_terminal()
}

/// Width and height; what a terminal that does not say is taken for.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}
