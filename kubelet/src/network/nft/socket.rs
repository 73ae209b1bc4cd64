//! The netlink socket for netfilter: sends requests and batches, and reads the answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{
    Timeout, set_socket_send_buffer_size, set_socket_send_buffer_size_force, set_socket_timeout,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};

use super::Error;
use super::antispoof::BRIDGE;
use super::table::{INET, kind};
use super::wire::{
    Attributes, DONE, DUMP, ERROR, INTERRUPTED, Message, Received, batch, find, messages, number, text,
};

/// Timeout of a response. The kernel answers within the system call, so a later answer will not come.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of the receive buffer. It is larger than any message of the kernel, which repeats rejected messages.
const RECEIVE_BUFFER_BYTES: usize = 256 << 10;

/// Limit of a batch, which the kernel allocates only while it is sent. It has space for the rules of 200,000 endpoints
/// of Services, some hundred bytes each.
const SEND_BUFFER_BYTES: usize = 64 << 20;

/// Maximum number of retries after concurrent changes. No program makes that many changes in a row. Each retry
/// costs about a millisecond.
const MAX_TRIES: usize = 200;

#[derive(Debug)]
pub enum RequestError {
    /// Another program changed rules meanwhile. The caller must start again.
    Changed,
    /// The kernel cannot create a part of the family `bridge`.
    NoBridgeFamily(Errno),
    /// The kernel rejects the request.
    Refused {
        /// The error number.
        errno: Errno,
        /// The object that the kernel rejected, such as a table or a set.
        what: String,
    },
}

impl RequestError {
    /// The error number, for messages.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Changed => Errno::AGAIN,
            Self::NoBridgeFamily(errno) | Self::Refused { errno, .. } => *errno,
        }
    }
}

/// A socket with one request at a time.
pub struct Socket {
    socket: OwnedFd,
    /// The sequence number of the next message.
    next: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket that is subscribed to the multicast groups in a bit mask.
    pub fn open(groups: u32) -> Result<Self, Errno> {
        let socket = connect(groups, SocketFlags::CLOEXEC)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(RESPONSE_TIMEOUT))?;
        // Without CAP_NET_ADMIN the system allows less; a batch that does not fit fails when it is sent.
        if set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err() {
            set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        }
        Ok(Self { socket, next: 1, buffer: vec![0; RECEIVE_BUFFER_BYTES] })
    }

    /// The generation of the rules in this network namespace, which each change increments.
    pub fn generation(&mut self) -> Result<u32, RequestError> {
        const NUMBER: u16 = 1;
        let query = Message::new(kind::GET_GENERATION, 0, 0, Attributes::new());
        let mut generation_number = None;
        self.query(&query, |answer| {
            generation_number = number(answer.attributes(), NUMBER);
            true
        })?;
        generation_number.ok_or_else(|| refused(Errno::BADMSG, "to say how often rules have changed"))
    }

    /// Lists the objects of a kind.
    pub fn list<T>(
        &mut self,
        kind: u8,
        family: u8,
        of: Attributes,
        read: impl Fn(&Received<'_>) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        self.list_all(&Message::new(kind, DUMP, family, of), read)
    }

    /// Lists the objects that the message requests.
    pub fn list_all<T>(
        &mut self,
        message: &Message,
        read: impl Fn(&Received<'_>) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        let mut found = Vec::new();
        self.query(message, |answer| {
            found.extend(read(answer));
            false
        })?;
        Ok(found)
    }

    /// Sends one message that the kernel acknowledges.
    pub fn execute(&mut self, message: &Message) -> Result<(), RequestError> {
        self.query(message, |_| false)
    }

    /// Sends a request, and reads the answers up to the last one.
    fn query(
        &mut self,
        message: &Message,
        mut is_last: impl FnMut(&Received<'_>) -> bool,
    ) -> Result<(), RequestError> {
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
                    return if interrupted { Err(RequestError::Changed) } else { Ok(()) };
                }
            }
        }
    }

    /// Commits all messages atomically, if the rules still have this generation.
    pub fn commit(&mut self, generation: u32, all: &[Message]) -> Result<(), RequestError> {
        if all.is_empty() {
            return Ok(());
        }
        let first = self.numbers(all.len() as u32 + 2);
        let last = first.wrapping_add(all.len() as u32);
        self.send(&batch(all, generation, first))?;
        let mut failed = None;
        let mut done = false;
        // All answers have arrived, because the kernel works within the send call.
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
            Some((errno, _)) if errno == RESTART => Err(RequestError::Changed),
            Some((errno, at)) => {
                let message = usize::try_from(at).ok().and_then(|at| all.get(at.checked_sub(1)?));
                let failed = Errno::from_raw_os_error(errno);
                if message.is_some_and(|message| lacks_bridge_family(message, failed)) {
                    return Err(RequestError::NoBridgeFamily(failed));
                }
                let what = message.map_or_else(|| "the whole batch".to_owned(), what);
                Err(refused(failed, what))
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

    fn send(&self, bytes: &[u8]) -> Result<(), RequestError> {
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

/// The error `ERESTART`: the rules have another generation. The value is not in the public headers.
const RESTART: i32 = 85;

/// Opens a netfilter socket in this thread's network namespace.
pub fn connect(groups: u32, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn refused(errno: Errno, what: impl Into<String>) -> RequestError {
    RequestError::Refused { errno, what: what.into() }
}

/// Whether the kernel rejects a message because it was built without the family `bridge` of nf_tables, or a part of
/// it.
fn lacks_bridge_family(message: &Message, errno: Errno) -> bool {
    let makes = [kind::NEW_TABLE, kind::NEW_CHAIN, kind::NEW_RULE, kind::NEW_SET];
    let lacking = [Errno::OPNOTSUPP, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::NOENT];
    message.family == BRIDGE && makes.contains(&(message.kind as u8)) && lacking.contains(&errno)
}

/// Describes a message for errors.
fn what(message: &Message) -> String {
    let attributes = message.attributes.as_bytes();
    let named = |kind| text(attributes, kind).unwrap_or_default();
    let family = match message.family {
        INET => "inet ",
        BRIDGE => "bridge ",
        _ => "",
    };
    let table = format!("table {family}{}", named(1));
    match message.kind as u8 {
        kind::DELETE_CHAIN => format!("to delete chain {} of {table}", named(3)),
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

/// Plans changes from the current rules and commits them. Starts again if another program changed rules
/// meanwhile, because the kernel then rejects the batch.
///
/// # Errors
/// If the kernel rejects the rules, or another program changes rules all the time. `doing` names the operation.
pub fn transact<T>(
    socket: &mut Socket,
    doing: &'static str,
    plan: impl Fn(&mut Socket) -> Result<(Vec<Message>, T), RequestError>,
) -> Result<T, Error> {
    let refused = |error| match error {
        RequestError::Changed => Error::Contended { doing },
        RequestError::NoBridgeFamily(errno) => Error::NoBridgeFamily { doing, source: errno.into() },
        RequestError::Refused { errno, what } => Error::refused(doing, errno, what),
    };
    for _ in 0..MAX_TRIES {
        let generation = socket.generation().map_err(refused)?;
        let tried = plan(socket).and_then(|(messages, result)| {
            socket.commit(generation, &messages)?;
            Ok(result)
        });
        match tried {
            Ok(result) => return Ok(result),
            Err(RequestError::Changed) => {}
            // The error may come from a concurrent change.
            Err(error) if socket.generation().map_err(refused)? == generation => {
                return Err(refused(error));
            }
            Err(_) => {}
        }
    }
    Err(Error::Contended { doing })
}

#[cfg(test)]
mod tests {
    use super::super::antispoof::probe;
    use super::{Errno, lacks_bridge_family};

    #[test]
    fn missing_bridge_family_is_detected_by_the_table_error() {
        let messages = probe("node");
        assert!(lacks_bridge_family(&messages[0], Errno::OPNOTSUPP), "the table");
        assert!(!lacks_bridge_family(&messages[0], Errno::PERM), "a refusal for another reason");
        assert!(!lacks_bridge_family(&messages[1], Errno::NOENT), "a table that is not there");
        let inet = super::super::table::remove("node");
        assert!(!lacks_bridge_family(&inet[0], Errno::OPNOTSUPP), "another family");
    }
}
