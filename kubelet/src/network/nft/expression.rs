//! Expressions of nftables rules. They load a property of the packet into a register, compare it, and act. Pure.
//!
//! A rule ends at the first expression that does not match. The numbers are those of linux/netfilter/nf_tables.h.

use super::Family;
use super::wire::Attributes;

/// One expression of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Attributes);

/// The first register. A longer value continues in the next registers, four bytes each.
pub(super) const FIRST: u32 = 8;
/// The register of the verdict.
const DECISION: u32 = 0;

const META_MARK: u32 = 3;
pub(super) const META_IIFNAME: u32 = 6;
pub(super) const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
pub(super) const META_L4PROTO: u32 = 16;

impl Expression {
    pub(super) fn new(name: &str, data: &Attributes) -> Self {
        Self(Attributes::new().text(1, name).nested(2, data))
    }

    /// The attributes of the expression, as an element of a list.
    pub fn attributes(&self) -> &Attributes {
        &self.0
    }
}

/// Matches the input interface.
pub fn iif_is(interface: &str) -> Vec<Expression> {
    vec![meta(META_IIFNAME, FIRST), compare(true, &name(interface))]
}

/// Matches input interfaces whose name begins with this text.
pub fn iif_begins_with(prefix: &str) -> Vec<Expression> {
    vec![meta(META_IIFNAME, FIRST), compare(true, prefix.as_bytes())]
}

/// Matches output interfaces whose name begins with this text.
pub fn oif_begins_with(prefix: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), compare(true, prefix.as_bytes())]
}

/// Matches the output interface.
pub fn oif_is(interface: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), compare(true, &name(interface))]
}

/// Matches every output interface but this one.
pub fn oif_is_not(interface: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), compare(false, &name(interface))]
}

/// Matches every input interface but this one.
pub fn iif_is_not(interface: &str) -> Vec<Expression> {
    vec![meta(META_IIFNAME, FIRST), compare(false, &name(interface))]
}

/// Matches the address family.
pub fn family_is(family: Family) -> Vec<Expression> {
    vec![meta(META_NFPROTO, FIRST), compare(true, &[family.number()])]
}

/// Matches source addresses in a network: the first `bits` bits of `address`.
pub fn source_in(family: Family, address: &[u8], bits: u8) -> Vec<Expression> {
    in_prefix(family, family.source_offset(), address, bits)
}

/// Matches destination addresses in a network: the first `bits` bits of `address`.
pub fn destination_in(family: Family, address: &[u8], bits: u8) -> Vec<Expression> {
    in_prefix(family, family.destination_offset(), address, bits)
}

/// Matches a destination address that is in no interval of the set.
pub fn destination_not_in_set(family: Family, set: &str) -> Vec<Expression> {
    vec![destination(family, FIRST), lookup(set, None, true)]
}

/// Matches a destination address of this host.
pub fn is_to_local_address() -> Vec<Expression> {
    const OF_DESTINATION: u32 = 2;
    is_local_address(OF_DESTINATION)
}

/// Matches a source address of this host.
pub fn is_from_local_address() -> Vec<Expression> {
    const OF_SOURCE: u32 = 1;
    is_local_address(OF_SOURCE)
}

fn is_local_address(which: u32) -> Vec<Expression> {
    const RESULT_ADDRESS_TYPE: u32 = 3;
    /// The route type `RTN_LOCAL` (linux/rtnetlink.h).
    const LOCAL: u32 = 2;
    let data = Attributes::new().number(1, FIRST).number(2, RESULT_ADDRESS_TYPE).number(3, which);
    vec![Expression::new("fib", &data), compare(true, &LOCAL.to_ne_bytes())]
}

/// Matches connections with DNAT.
pub fn is_dnat() -> Vec<Expression> {
    has_dnat(true)
}

/// Sets a bit of the packet's mark.
pub fn add_mark(bit: u32) -> Vec<Expression> {
    let set = Attributes::new().number(2, META_MARK).number(3, FIRST);
    vec![
        meta(META_MARK, FIRST),
        bitwise(&(!bit).to_ne_bytes(), &bit.to_ne_bytes()),
        Expression::new("meta", &set),
    ]
}

/// Matches packets whose mark has a bit.
pub fn has_mark(bit: u32) -> Vec<Expression> {
    vec![meta(META_MARK, FIRST), mask(&bit.to_ne_bytes()), compare(true, &bit.to_ne_bytes())]
}

/// Matches packets whose mark has a bit by the extension `mark` of iptables, as `--mark BIT/BIT`.
pub fn iptables_mark(bit: u32) -> Expression {
    const REVISION: u32 = 1;
    /// Length of `struct xt_mark_mtinfo1` (linux/netfilter/xt_mark.h), aligned to eight bytes: mark, mask, inversion.
    const LENGTH: usize = 16;
    let mut info = [0; LENGTH];
    info[..4].copy_from_slice(&bit.to_ne_bytes());
    info[4..8].copy_from_slice(&bit.to_ne_bytes());
    let data = Attributes::new().text(1, "mark").number(2, REVISION).bytes(3, &info);
    Expression::new("match", &data)
}

/// Matches connections without DNAT.
pub fn is_not_dnat() -> Vec<Expression> {
    has_dnat(false)
}

fn has_dnat(has: bool) -> Vec<Expression> {
    const STATUS: u32 = 2;
    /// The status bit `IPS_DST_NAT` (linux/netfilter/nf_conntrack_common.h).
    const REDIRECTED: u32 = 1 << 5;
    let status = Attributes::new().number(1, FIRST).number(2, STATUS);
    vec![Expression::new("ct", &status), mask(&REDIRECTED.to_ne_bytes()), compare(!has, &[0; 4])]
}

/// Matches packets without a tracked connection.
pub fn is_untracked() -> Vec<Expression> {
    const STATE: u32 = 0;
    /// The state bits `NF_CT_STATE_INVALID_BIT` and `NF_CT_STATE_UNTRACKED_BIT`
    /// (linux/netfilter/nf_conntrack_common.h).
    const UNKNOWN: u32 = 1 | 1 << 6;
    let state = Attributes::new().number(1, FIRST).number(2, STATE);
    vec![Expression::new("ct", &state), mask(&UNKNOWN.to_ne_bytes()), compare(false, &[0; 4])]
}

/// Matches packets of an established connection, and packets that belong to one, such as ICMP errors.
pub fn is_established_or_related() -> Vec<Expression> {
    const STATE: u32 = 0;
    /// The state bits of `IP_CT_ESTABLISHED` and `IP_CT_RELATED` (linux/netfilter/nf_conntrack_common.h).
    const KNOWN: u32 = 1 << 1 | 1 << 2;
    let state = Attributes::new().number(1, FIRST).number(2, STATE);
    vec![Expression::new("ct", &state), mask(&KNOWN.to_ne_bytes()), compare(false, &[0; 4])]
}

/// Matches packets in the direction of the connection's first packet.
pub fn is_original_direction() -> Vec<Expression> {
    const DIRECTION: u32 = 1;
    let direction = Attributes::new().number(1, FIRST).number(2, DIRECTION);
    vec![Expression::new("ct", &direction), compare(true, &[ORIGINAL])]
}

/// Matches connections whose original destination is a key of the map, regardless of DNAT.
pub fn original_destination_in(family: Family, map: &str, by_address: bool) -> Vec<Expression> {
    let protocol = if by_address { FIRST + words(family) } else { FIRST };
    let mut all =
        if by_address { vec![original(family.original_destination_key(), FIRST)] } else { Vec::new() };
    all.extend([
        meta(META_L4PROTO, protocol),
        original(ORIGINAL_PORT, protocol + 1),
        // Only the match counts; the value is not used.
        lookup(map, Some(FIRST), false),
    ]);
    all
}

/// DNAT to the target that the map has for the packet's protocol and port. With `by_address`, the address of the
/// packet counts too. Without an entry in the map, the rule ends.
pub fn redirect(family: Family, map: &str, by_address: bool) -> Vec<Expression> {
    let protocol = if by_address { FIRST + words(family) } else { FIRST };
    let port = payload(BASE_TRANSPORT, PORT_OFFSET, 2, protocol + 1);
    let mut all = if by_address { vec![destination(family, FIRST)] } else { Vec::new() };
    all.extend([
        meta(META_L4PROTO, protocol),
        port,
        lookup(map, Some(FIRST), false),
        dnat(family, FIRST, FIRST + words(family)),
    ]);
    all
}

/// DNAT to the address at register `address` and the port at register `port`.
pub fn dnat(family: Family, address: u32, port: u32) -> Expression {
    const DESTINATION: u32 = 1;
    let to = Attributes::new()
        .number(1, DESTINATION)
        .number(2, u32::from(family.number()))
        .number(3, address)
        .number(5, port);
    Expression::new("nat", &to)
}

/// Loads the key of a Service from the packet's destination to `register`: address, protocol and port. The address
/// is unspecified for a node port.
pub fn service_key(family: Family, is_node_port: bool, register: u32) -> Vec<Expression> {
    let protocol = register + words(family);
    let address = if is_node_port { no_address(family, register) } else { destination(family, register) };
    let port = payload(BASE_TRANSPORT, PORT_OFFSET, 2, protocol + 1);
    vec![address, meta(META_L4PROTO, protocol), port]
}

/// Loads the same key from the original destination of the connection, regardless of DNAT.
pub fn original_service_key(family: Family, is_node_port: bool, register: u32) -> Vec<Expression> {
    let protocol = register + words(family);
    let address = match is_node_port {
        true => no_address(family, register),
        false => original(family.original_destination_key(), register),
    };
    vec![address, meta(META_L4PROTO, protocol), original(ORIGINAL_PORT, protocol + 1)]
}

fn no_address(family: Family, register: u32) -> Expression {
    constant(register, &vec![0; usize::from(family.address_length())])
}

/// Loads constant bytes.
pub fn constant(register: u32, bytes: &[u8]) -> Expression {
    Expression::new("immediate", &Attributes::new().number(1, register).nested(2, &value(bytes)))
}

/// Draws a random number below `modulus`, in host byte order.
pub fn random(modulus: u32, register: u32) -> Expression {
    const RANDOM: u32 = 1;
    Expression::new("numgen", &Attributes::new().number(1, register).number(2, modulus).number(3, RANDOM))
}

/// A change of a set or map by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Adds a missing element, or renews the timeout of an existing one.
    Update,
    /// Deletes an element if it exists.
    Delete,
}

/// Changes the element of a set or map with the key and value at these registers. The timeout is in milliseconds.
pub fn change_set(
    set: &str,
    operation: SetOperation,
    key: u32,
    data: Option<u32>,
    timeout: u64,
) -> Expression {
    let (number, timeout) = match operation {
        SetOperation::Update => (1, Some(timeout)),
        SetOperation::Delete => (2, None),
    };
    let mut change = Attributes::new().text(1, set).number(3, number).number(4, key);
    if let Some(data) = data {
        change = change.number(5, data);
    }
    if let Some(timeout) = timeout {
        change = change.long(6, timeout);
    }
    Expression::new("dynset", &change)
}

/// Matches an IP protocol by its number.
pub fn protocol_is(number: u8) -> Vec<Expression> {
    vec![meta(META_L4PROTO, FIRST), compare(true, &[number])]
}

/// Matches destination ports from `first` to `last`. The packet must be of a protocol with ports.
pub fn port_in(first: u16, last: u16) -> Vec<Expression> {
    let port = payload(BASE_TRANSPORT, PORT_OFFSET, 2, FIRST);
    match first == last {
        true => vec![port, compare(true, &first.to_be_bytes())],
        false => vec![port, at_least(&first.to_be_bytes()), at_most(&last.to_be_bytes())],
    }
}

/// Loads the addresses of source and destination to the first registers.
pub fn both_addresses(family: Family) -> Vec<Expression> {
    vec![source(family, FIRST), destination(family, FIRST + words(family))]
}

/// Matches TCP.
pub fn is_tcp() -> Vec<Expression> {
    const TCP: u8 = 6;
    vec![meta(META_L4PROTO, FIRST), compare(true, &[TCP])]
}

/// Rejects the packet with a TCP reset.
pub fn reject_with_reset() -> Expression {
    const TCP_RESET: u32 = 1;
    Expression::new("reject", &Attributes::new().number(1, TCP_RESET).bytes(2, &[0]))
}

/// Rejects the packet with an ICMP error: port unreachable.
pub fn reject_as_unreachable() -> Expression {
    const ICMPX: u32 = 2;
    const PORT_UNREACHABLE: u8 = 1;
    Expression::new("reject", &Attributes::new().number(1, ICMPX).bytes(2, &[PORT_UNREACHABLE]))
}

/// Replaces the source address by the address of the output interface.
pub fn masquerade() -> Expression {
    Expression::new("masq", &Attributes::new())
}

/// Counts the packet.
pub fn count() -> Expression {
    Expression::new("counter", &Attributes::new())
}

/// Accepts the packet in this chain.
pub fn accept() -> Expression {
    decide(&Attributes::new().number(1, 1))
}

/// Drops the packet.
pub fn drop() -> Expression {
    decide(&Attributes::new().number(1, 0))
}

/// Returns to the calling chain.
pub fn return_to_caller() -> Expression {
    const RETURN: i32 = -5;
    decide(&Attributes::new().bytes(1, &RETURN.to_be_bytes()))
}

/// Jumps to another chain.
pub fn jump(chain: &str) -> Expression {
    const JUMP: i32 = -3;
    decide(&Attributes::new().bytes(1, &JUMP.to_be_bytes()).text(2, chain))
}

/// Continues in another chain, without a return.
pub fn goto(chain: &str) -> Expression {
    const GOTO: i32 = -4;
    decide(&Attributes::new().bytes(1, &GOTO.to_be_bytes()).text(2, chain))
}

const BASE_NETWORK: u32 = 1;

/// The direction `IP_CT_DIR_ORIGINAL`, that of a connection's first packet.
const ORIGINAL: u8 = 0;
const BASE_TRANSPORT: u32 = 2;
/// Offset of the destination port in a transport header, in bytes.
const PORT_OFFSET: u32 = 2;
/// The conntrack key `NFT_CT_PROTO_DST`.
const ORIGINAL_PORT: u32 = 12;

fn in_prefix(family: Family, offset: u32, address: &[u8], bits: u8) -> Vec<Expression> {
    let length = usize::from(family.address_length());
    let ones: Vec<u8> =
        (0..length).map(|byte| mask_byte(usize::from(bits).saturating_sub(byte * 8))).collect();
    let wanted: Vec<u8> = address.iter().zip(&ones).map(|(byte, ones)| byte & ones).collect();
    let whole = payload(BASE_NETWORK, offset, u32::from(family.address_length()), FIRST);
    vec![whole, mask(&ones), compare(true, &wanted)]
}

/// Returns a byte whose first `ones` bits are set.
fn mask_byte(ones: usize) -> u8 {
    u8::MAX.checked_shl(8 - ones.min(8) as u32).unwrap_or(0)
}

/// Loads the destination address.
pub fn destination(family: Family, register: u32) -> Expression {
    payload(BASE_NETWORK, family.destination_offset(), u32::from(family.address_length()), register)
}

/// Loads the source address.
pub fn source(family: Family, register: u32) -> Expression {
    payload(BASE_NETWORK, family.source_offset(), u32::from(family.address_length()), register)
}

/// The number of registers for an address.
pub fn words(family: Family) -> u32 {
    u32::from(family.address_length()) / 4
}

/// Loads a property of the connection's original direction.
fn original(key: u32, register: u32) -> Expression {
    Expression::new("ct", &Attributes::new().number(1, register).number(2, key).bytes(3, &[ORIGINAL]))
}

/// Returns an interface name with its terminating zero. iptables compares it in this form.
fn name(interface: &str) -> Vec<u8> {
    [interface.as_bytes(), &[0]].concat()
}

pub(super) fn meta(key: u32, register: u32) -> Expression {
    Expression::new("meta", &Attributes::new().number(1, register).number(2, key))
}

pub(super) fn payload(base: u32, offset: u32, length: u32, register: u32) -> Expression {
    let data = Attributes::new().number(1, register).number(2, base).number(3, offset).number(4, length);
    Expression::new("payload", &data)
}

pub(super) fn mask(ones: &[u8]) -> Expression {
    bitwise(ones, &vec![0; ones.len()])
}

/// Keeps the bits of the first register that are set in `kept`, and then inverts those that are set in `inverted`.
fn bitwise(kept: &[u8], inverted: &[u8]) -> Expression {
    let data = Attributes::new()
        .number(1, FIRST)
        .number(2, FIRST)
        .number(3, kept.len() as u32)
        .nested(4, &value(kept))
        .nested(5, &value(inverted));
    Expression::new("bitwise", &data)
}

pub(super) fn compare(equal: bool, with: &[u8]) -> Expression {
    compare_by(u32::from(!equal), with)
}

/// Matches values of the first register that are at least these bytes.
pub(super) fn at_least(bytes: &[u8]) -> Expression {
    const AT_LEAST: u32 = 5;
    compare_by(AT_LEAST, bytes)
}

/// Matches values of the first register that are at most these bytes.
pub(super) fn at_most(bytes: &[u8]) -> Expression {
    const AT_MOST: u32 = 3;
    compare_by(AT_MOST, bytes)
}

fn compare_by(operator: u32, with: &[u8]) -> Expression {
    let data = Attributes::new().number(1, FIRST).number(2, operator).nested(3, &value(with));
    Expression::new("cmp", &data)
}

pub(super) fn lookup(set: &str, into: Option<u32>, inverted: bool) -> Expression {
    look_up(set, FIRST, into, inverted)
}

/// Looks up the key at a register. In a map, loads the value to `into`. Without an element, the rule ends.
pub fn lookup_at(set: &str, key: u32, into: Option<u32>) -> Expression {
    look_up(set, key, into, false)
}

/// Looks up the key at a register in a map of verdicts. Without an element, the rule ends.
pub fn lookup_verdict(map: &str, key: u32) -> Expression {
    look_up(map, key, Some(DECISION), false)
}

fn look_up(set: &str, key: u32, into: Option<u32>, inverted: bool) -> Expression {
    let mut data = Attributes::new().text(1, set).number(2, key);
    if let Some(register) = into {
        data = data.number(3, register);
    }
    if inverted {
        data = data.number(5, 1);
    }
    Expression::new("lookup", &data)
}

fn decide(verdict: &Attributes) -> Expression {
    let data = Attributes::new().nested(2, verdict);
    Expression::new("immediate", &Attributes::new().number(1, DECISION).nested(2, &data))
}

/// Returns a value as an nftables attribute.
pub fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::Family;
    use super::{Expression, iif_is, in_prefix, mask_byte, redirect};
    use crate::network::nft::wire::{Message, find, messages, number, text};

    /// Name and data of an expression, as the kernel reads it.
    fn read(expression: &Expression) -> (String, Vec<u8>) {
        let mut bytes = Vec::new();
        Message::new(0, 0, 0, expression.attributes().clone()).write(0, &mut bytes);
        let message = messages(&bytes).next().unwrap();
        (text(message.attributes(), 1).unwrap(), find(message.attributes(), 2).unwrap().to_vec())
    }

    #[test]
    fn prefix_match_masks_partial_bytes() {
        assert_eq!([0, 1, 7, 8, 9].map(mask_byte), [0, 0x80, 0xfe, 0xff, 0xff]);
        let all = in_prefix(Family::V4, 12, &[10, 244, 7, 9], 22);
        let (_, ones) = read(&all[1]);
        assert_eq!(find(find(&ones, 4).unwrap(), 1).unwrap(), [255, 255, 252, 0]);
        let (_, compared) = read(&all[2]);
        assert_eq!(find(find(&compared, 3).unwrap(), 1).unwrap(), [10, 244, 4, 0], "the rest does not count");
    }

    #[test]
    fn interface_name_match_includes_the_terminating_zero() {
        let (name, data) = read(&iif_is("br0")[1]);
        assert_eq!((name.as_str(), find(find(&data, 3).unwrap(), 1).unwrap()), ("cmp", &b"br0\0"[..]));
    }

    #[test]
    fn ipv6_redirect_uses_four_registers() {
        let all = redirect(Family::V6, "ports_at6", true);
        let names: Vec<String> = all.iter().map(|one| read(one).0).collect();
        assert_eq!(names, ["payload", "meta", "payload", "lookup", "nat"]);
        let register = |at: usize, kind: u16| number(&read(&all[at]).1, kind);
        assert_eq!([register(0, 1), register(1, 1), register(2, 1)], [Some(8), Some(12), Some(13)]);
        assert_eq!([register(4, 3), register(4, 5)], [Some(8), Some(12)], "address, then port");
    }
}
