//! Raw mode and size of the local terminal.

use std::io::{IsTerminal as _, stdin};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Puts the terminal into raw mode. Dropping this value restores the previous mode.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Enables raw mode on standard input. `None` if standard input is not a terminal.
    pub fn take() -> Option<Self> {
        if !is_terminal() {
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

/// Whether standard input is a terminal.
pub fn is_terminal() -> bool {
    stdin().is_terminal()
}

/// Width and height of the terminal; 80 by 24 if they are unknown.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}
