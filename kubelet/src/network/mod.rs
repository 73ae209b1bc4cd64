//! The network of pods: who gives a sandbox its addresses.
//!
//! There are two. The engine, by its own bridge; or the kubelet itself ([`native`]), on a sandbox whose network the engine leaves
//! empty, which is faster and can reach beyond the node. [`Networked`] stands in front of the engine, so that the rest of the
//! kubelet sees sandboxes with addresses and asks no further.

mod choice;
mod files;
mod members;
pub mod native;
mod networked;
pub mod nft;
mod tell;

pub use choice::obstacle;
pub use members::{Member, Members, meet};
pub use native::Native;
pub use networked::Networked;
pub use tell::tell;
