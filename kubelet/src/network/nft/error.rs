//! Errors of reading or setting packet rules, each with a remedy.

use std::io;

use rustix::io::Errno;

/// The reason why packet rules could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no nf_tables.
    #[error(
        "cannot {doing}: the kernel has no nf_tables ({source}): load the module nf_tables, or use --pod-network docker"
    )]
    Missing {
        /// The failed operation.
        doing: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The process lacks permission.
    #[error("cannot {doing}: {source}: it needs CAP_NET_ADMIN in the network namespace of the host")]
    Denied {
        /// The failed operation.
        doing: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel lacks a feature that a rule needs.
    #[error(
        "cannot {doing}: the kernel lacks a part of nf_tables for {what} ({source}): load the modules nft_chain_nat, nft_nat, \
         nft_masq, nft_ct and nft_fib_inet, or use --pod-network docker"
    )]
    Unsupported {
        /// The failed operation.
        doing: &'static str,
        /// The rejected part.
        what: String,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel rejects a message.
    #[error("cannot {doing}: the kernel refuses {what}: {source}")]
    Refused {
        /// The failed operation.
        doing: &'static str,
        /// The rejected part.
        what: String,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel has no nf_tables for bridges.
    #[error(
        "cannot {doing}: the kernel has no nf_tables of family bridge ({source}), see CONFIG_NF_TABLES_BRIDGE"
    )]
    NoBridgeFamily {
        /// The failed operation.
        doing: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Another program changes rules all the time.
    #[error("cannot {doing}: another program changes packet rules all the time; try again")]
    Contended {
        /// The failed operation.
        doing: &'static str,
    },
    /// The table is gone or was changed by another program.
    #[error("the packet rules of table inet {table} are missing or changed: the kubelet must set them again")]
    Gone {
        /// The table name.
        table: String,
    },
    /// The firewall of iptables-legacy could not be changed.
    #[error(
        "the legacy iptables firewall may drop packets of pods, and cannot be changed: {command}: {message}; accept FORWARD for \
         the bridge yourself, or use nf_tables only"
    )]
    Legacy {
        /// The command line.
        command: String,
        /// The output of the command.
        message: String,
    },
}

impl Error {
    /// Classifies the error of the first request.
    pub(super) fn opening(doing: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Denied { doing, source: errno.into() },
            // The kernel lacks netfilter, or nf_tables in it.
            Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::INVAL | Errno::OPNOTSUPP => {
                Self::Missing { doing, source: errno.into() }
            }
            _ => Self::Refused { doing, what: "to be asked".to_owned(), source: errno.into() },
        }
    }

    /// Whether a message named an object that does not exist. The kernel reports a missing module alike.
    pub(super) fn is_missing_object(&self) -> bool {
        matches!(self, Self::Unsupported { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Classifies a rejection by the kernel. `what` names the rejected object; see
    /// [`super::socket::RequestError::Refused`].
    pub(super) fn refused(doing: &'static str, errno: Errno, what: String) -> Self {
        let source = errno.into();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Denied { doing, source },
            Errno::NOENT | Errno::OPNOTSUPP => Self::Unsupported { doing, what, source },
            _ => Self::Refused { doing, what, source },
        }
    }
}
