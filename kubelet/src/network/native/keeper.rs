//! Sees to it that what was laid stays: whoever takes a bridge or a cable away finds it made good, and named in an event.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::Native;
use super::bridge::is_cable;
use super::links::Link;
use super::netlink::Netlink;
use super::netns::Namespace;
use super::packets;
use super::record::Record;
use super::state::{Key, Process};
use crate::disk;
use crate::network::nft::Watch;
use crate::report::{About, Outbox, Severity};

/// Links and addresses: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR` of rtnetlink.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// One change comes with others, our own among them: they are looked at together.
const SETTLES: Duration = Duration::from_millis(200);
/// After a look that failed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Looks whenever something of the network changes, until the kubelet ends.
pub async fn keep(native: Arc<Native>, outbox: Arc<Outbox>, node: String) {
    loop {
        if let Err(error) = follow(&native, &outbox, &node).await {
            tracing::warn!(%error, "cannot see what becomes of the network of pods; trying again");
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn follow(native: &Arc<Native>, outbox: &Arc<Outbox>, node: &str) -> io::Result<()> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
    let mut rules = Watch::new().map_err(io::Error::other)?;
    // Both once before the first change, for what has happened while nobody looked.
    let (mut links_changed, mut rules_changed) = (true, true);
    loop {
        let looking = native.clone();
        let looked = disk::run(move || {
            let mut mended = Vec::new();
            let looked = looking.work(|| {
                let links = if links_changed { looking.mend(&mut mended) } else { Ok(()) };
                let rules = if rules_changed { looking.mend_rules(&mut mended) } else { Ok(()) };
                links.and(rules)
            });
            (mended, looked)
        });
        let (mended, looked) = looked.await;
        for mended in mended {
            outbox.note(About::node(node), Severity::Warning, "PodNetworkRepaired", mended);
        }
        looked?;
        (links_changed, rules_changed) = (false, false);
        tokio::select! {
            () = heard_of(&mut socket, &native.bridge.name) => links_changed = true,
            () = rules.changed() => rules_changed = true,
        }
        if links_changed {
            tokio::time::sleep(SETTLES).await;
        }
    }
}

/// Waits for a change of something of ours.
async fn heard_of(socket: &mut TokioSocket, bridge: &str) {
    while !concerns(&socket.recv_from_full().await, bridge) {}
}

/// Whether what was heard is about something of ours; what cannot be understood or was lost may be.
fn concerns(heard: &io::Result<(Vec<u8>, SocketAddr)>, bridge: &str) -> bool {
    let Ok((bytes, _)) = heard else { return true };
    let Ok(packet) = NetlinkMessage::<Message>::deserialize(bytes) else { return true };
    match packet.payload {
        NetlinkPayload::InnerMessage(Message::NewLink(link) | Message::DelLink(link)) => {
            let name = Link::of(&link).name;
            name == bridge || is_cable(&name)
        }
        NetlinkPayload::InnerMessage(Message::DelAddress(_)) => true,
        _ => false,
    }
}

impl Native {
    /// Looks at the bridge and at every cable, and makes good what is not as it was laid; tells what that was.
    fn mend(&self, mended: &mut Vec<String>) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let (bridge, is_new) = self.bridge.ensure(&mut netlink)?;
        let name = &self.bridge.name;
        if is_new {
            mended
                .push(format!("the bridge {name} was gone: it is there again, and pods are connected to it"));
        }
        let cables = self.bridge.cables(&mut netlink, &bridge)?;
        // What cannot be mended of one pod keeps no other from it.
        let mut last = Ok(());
        let laid: Vec<_> =
            self.state().all_up().map(|(key, record, to)| (key.clone(), record.clone(), to)).collect();
        for (key, record, leads_to) in laid {
            let cable = self.bridge.cable(&key);
            let (done, what) = match cables.get(&cable) {
                Some(link) if link.is_up && link.bridge == Some(bridge.index) => continue,
                Some(link) => {
                    let plugged = self.bridge.plug_in(&mut netlink, &bridge, link);
                    (plugged.map(|()| !is_new), format!("was off or not on {name}"))
                }
                // Or it was laid while they were listed.
                None if self.bridge.find(&mut netlink, &cable)?.is_some() => continue,
                None => {
                    (self.lay_anew(&mut netlink, &bridge, &key, &record, leads_to), "was gone".to_owned())
                }
            };
            match done {
                Ok(true) => mended.push(format!("{cable} {what}: pod {} is connected again", key.uid)),
                Ok(false) => {}
                Err(error) => {
                    let text = format!("{cable} {what}, and pod {} cannot be connected: {error}", key.uid);
                    last = Err(io::Error::new(error.kind(), text));
                }
            }
        }
        last
    }

    /// Looks at the rules for packets and sets them again where somebody took them away.
    fn mend_rules(&self, mended: &mut Vec<String>) -> io::Result<()> {
        let repairs = self.ensure_rules()?;
        if repairs.table {
            mended.push(format!(
                "the table {} of packet rules was gone or changed: it is as it was",
                self.packets.name
            ));
        }
        if !repairs.ports.is_empty() {
            mended.push(
                "ports of the host that lead to pods were gone or changed: they are as they were".to_owned(),
            );
        }
        mended.extend(packets::closed(&repairs));
        for chain in repairs.opened {
            mended.push(format!(
                "the chain {chain} would have dropped what pods send and get: it lets them through"
            ));
        }
        Ok(())
    }

    /// Whether there was anything to lay it to: as a rule it went with the pod.
    fn lay_anew(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        key: &Key,
        record: &Record,
        leads_to: Option<Process>,
    ) -> io::Result<bool> {
        let Some((pid, number)) = leads_to else { return Ok(false) };
        let Some(namespace) = Namespace::of(pid).ok().filter(|found| found.number == number) else {
            return Ok(false);
        };
        self.bridge.lay(netlink, bridge, key, record, &namespace)?;
        Ok(true)
    }
}
