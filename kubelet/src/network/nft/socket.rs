//! The connection to the kernel: lists are asked for, batches are sent. It decides nothing.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};

use super::table::{INET, kind};
use super::wire::{
    Attributes, DONE, DUMP, ERROR, INTERRUPTED, Message, Received, batch, find, messages, number, text,
};

/// The kernel answers within the call; whoever waits longer waits for nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// More than a message of the kernel, which repeats what it refuses.
const LARGEST_ANSWER: usize = 256 << 10;

/// All ports of a full node in one batch, some hundred bytes each.
const LARGEST_BATCH: usize = 1 << 20;

/// Why nothing came of a request.
#[derive(Debug)]
pub enum Fault {
    /// Somebody changed rules meanwhile: look again.
    Moved,
    /// The kernel does not do it.
    Refused {
        /// Why.
        errno: Errno,
        /// What of it.
        what: String,
    },
}

impl Fault {
    /// What the kernel said.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Moved => Errno::AGAIN,
            Self::Refused { errno, .. } => *errno,
        }
    }
}

/// A connection that is used by one request at a time.
pub struct Socket {
    socket: OwnedFd,
    /// The number of the next message.
    next: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// A connection that also hears of these groups of changes, a bit each.
    pub fn open(groups: u32) -> Result<Self, Errno> {
        let socket = connect(groups, SocketFlags::CLOEXEC)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WITHIN))?;
        // As much of it as the system allows; what does not fit is refused when it is sent.
        set_socket_send_buffer_size(&socket, LARGEST_BATCH)?;
        Ok(Self { socket, next: 1, buffer: vec![0; LARGEST_ANSWER] })
    }

    /// How often the rules of this network namespace have changed.
    pub fn generation(&mut self) -> Result<u32, Fault> {
        const NUMBER: u16 = 1;
        let ask = Message::new(kind::GET_GENERATION, 0, 0, Attributes::new());
        let mut told = None;
        self.ask(&ask, |answer| {
            told = number(answer.attributes(), NUMBER);
            true
        })?;
        told.ok_or_else(|| refused(Errno::BADMSG, "to say how often rules have changed"))
    }

    /// What there is of a kind.
    pub fn list<T>(
        &mut self,
        kind: u8,
        family: u8,
        of: Attributes,
        read: impl Fn(&Received<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Fault> {
        self.list_all(&Message::new(kind, DUMP, family, of), read)
    }

    /// What a message lists.
    pub fn list_all<T>(
        &mut self,
        message: &Message,
        read: impl Fn(&Received<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Fault> {
        let mut found = Vec::new();
        self.ask(message, |answer| {
            found.extend(read(answer));
            false
        })?;
        Ok(found)
    }

    /// Carries out one message that the kernel answers.
    pub fn carry_out(&mut self, message: &Message) -> Result<(), Fault> {
        self.ask(message, |_| false)
    }

    /// Sends a request and reads answers until one of them is the last.
    fn ask(
        &mut self,
        message: &Message,
        mut is_last: impl FnMut(&Received<'_>) -> bool,
    ) -> Result<(), Fault> {
        let sequence = self.numbers(1);
        let mut bytes = Vec::new();
        message.write(sequence, &mut bytes);
        self.send(&bytes)?;
        let mut interrupted = false;
        loop {
            let length = self.receive(RecvFlags::empty()).map_err(|errno| refused(errno, "to answer"))?;
            for answer in messages(&self.buffer[..length]).filter(|one| one.sequence == sequence) {
                interrupted |= answer.flags & INTERRUPTED != 0;
                let ended = [ERROR, DONE].contains(&answer.kind);
                match answer.errno() {
                    0 => {}
                    errno => return Err(refused(Errno::from_raw_os_error(errno), what(message))),
                }
                if ended || is_last(&answer) {
                    return if interrupted { Err(Fault::Moved) } else { Ok(()) };
                }
            }
        }
    }

    /// Carries out all or nothing, and nothing if the rules are not those of that generation any more.
    pub fn commit(&mut self, generation: u32, all: &[Message]) -> Result<(), Fault> {
        if all.is_empty() {
            return Ok(());
        }
        let first = self.numbers(all.len() as u32 + 2);
        let last = first.wrapping_add(all.len() as u32);
        self.send(&batch(all, generation, first))?;
        let mut failed = None;
        let mut done = false;
        // Every answer is there by now: the kernel works within the call that sends.
        loop {
            let length = match self.receive(RecvFlags::DONTWAIT) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(refused(errno, "to answer")),
            };
            for answer in messages(&self.buffer[..length]) {
                let at = answer.sequence.wrapping_sub(first);
                if answer.kind != ERROR || at > all.len() as u32 + 1 {
                    continue;
                }
                match answer.errno() {
                    0 => done |= answer.sequence == last,
                    errno => failed = failed.or(Some((errno, at))),
                }
            }
        }
        match failed {
            Some((errno, _)) if errno == RESTART => Err(Fault::Moved),
            Some((errno, at)) => {
                let message = usize::try_from(at).ok().and_then(|at| all.get(at.checked_sub(1)?));
                let what = message.map_or_else(|| "the whole batch".to_owned(), what);
                Err(refused(Errno::from_raw_os_error(errno), what))
            }
            None if done => Ok(()),
            None => Err(refused(Errno::NOBUFS, "to say what became of it")),
        }
    }

    fn numbers(&mut self, count: u32) -> u32 {
        let first = self.next;
        self.next = first.wrapping_add(count);
        first
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        loop {
            match send(&self.socket, bytes, SendFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno, format!("{} bytes at once", bytes.len()))),
            }
        }
    }

    fn receive(&mut self, flags: RecvFlags) -> Result<usize, Errno> {
        loop {
            match recv(&self.socket, &mut self.buffer[..], flags) {
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// `ERESTART`: the rules are of another generation. It has no name outside the kernel.
const RESTART: i32 = 85;

/// A connection to netfilter, in the network namespace of this thread.
pub fn connect(groups: u32, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn refused(errno: Errno, what: impl Into<String>) -> Fault {
    Fault::Refused { errno, what: what.into() }
}

/// A message in words.
fn what(message: &Message) -> String {
    let attributes = message.attributes.as_bytes();
    let named = |kind| text(attributes, kind).unwrap_or_default();
    let family = if message.family == INET { "inet " } else { "" };
    let table = format!("table {family}{}", named(1));
    match message.kind as u8 {
        kind::NEW_CHAIN => format!("chain {} of {table}", named(3)),
        kind::NEW_RULE => {
            let comment = find(attributes, 7).and_then(super::table::read_comment).unwrap_or_default();
            format!("the rule {comment:?} in chain {} of {table}", named(2))
        }
        kind::DELETE_RULE => format!("to delete a rule in chain {} of {table}", named(2)),
        kind::NEW_SET => format!("set {} of {table}", named(2)),
        kind::NEW_ELEMENT => format!("elements for set {} of {table}", named(2)),
        kind::DELETE_ELEMENT => format!("to delete elements of set {} of {table}", named(2)),
        kind::GET_TABLE | kind::GET_CHAIN | kind::GET_RULE | kind::GET_SET | kind::GET_ELEMENT => {
            "a list".to_owned()
        }
        _ => table,
    }
}
