//! Why packet rules could not be read or set, and what to do.

use std::io;

use rustix::io::Errno;

/// Packet rules are not as they should be, or are not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel was built or started without.
    #[error(
        "cannot {doing}: the kernel has no nf_tables ({source}): load the module nf_tables, or use --pod-network docker"
    )]
    Missing {
        /// What was to be done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The process may not.
    #[error("cannot {doing}: {source}: it needs CAP_NET_ADMIN in the network namespace of the host")]
    Denied {
        /// What was to be done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel does not know something that a rule consists of.
    #[error(
        "cannot {doing}: the kernel lacks a part of nf_tables for {what} ({source}): load the modules nft_chain_nat, nft_nat, \
         nft_masq, nft_ct and nft_fib_inet, or use --pod-network docker"
    )]
    Lacking {
        /// What was to be done.
        doing: &'static str,
        /// What was refused.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel does not take something.
    #[error("cannot {doing}: the kernel refuses {what}: {source}")]
    Refused {
        /// What was to be done.
        doing: &'static str,
        /// What was refused.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Somebody else changes rules whenever these are changed.
    #[error("cannot {doing}: some other program changes packet rules all the time; try again")]
    Restless {
        /// What was to be done.
        doing: &'static str,
    },
    /// The table is not there, or is not ours any more.
    #[error("the packet rules of table inet {table} are gone or changed: they have to be set anew")]
    Gone {
        /// Its name.
        table: String,
    },
    /// The older firewall of the kernel, which only its own program can change.
    #[error(
        "the firewall of iptables-legacy may drop what pods send and get, and cannot be opened: {command}: {told}; \
         accept FORWARD for the bridge yourself, or use nf_tables alone"
    )]
    Legacy {
        /// What was run.
        command: String,
        /// What came of it.
        told: String,
    },
}

impl Error {
    /// The first thing that is asked fails.
    pub(super) fn opening(doing: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Denied { doing, source: errno.into() },
            // No netfilter at all, or none of nf_tables in it.
            Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP => {
                Self::Missing { doing, source: errno.into() }
            }
            _ => Self::Refused { doing, what: "to be asked".to_owned(), source: errno.into() },
        }
    }

    /// Something that was to be changed or read, as [`super::socket::Fault::Refused`] names it.
    pub(super) fn refused(doing: &'static str, errno: Errno, what: String) -> Self {
        let source = errno.into();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Denied { doing, source },
            Errno::NOENT | Errno::OPNOTSUPP => Self::Lacking { doing, what, source },
            _ => Self::Refused { doing, what, source },
        }
    }
}
