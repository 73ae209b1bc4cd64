//! What rules consist of: a packet's property into a register, a register compared, and what follows. Pure.
//!
//! A rule goes on to its next expression as long as each one holds. Numbers are those of linux/netfilter/nf_tables.h.

use super::Family;
use super::wire::Attributes;

/// One step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(Attributes);

/// The first register; a value goes on into the following ones, four bytes each.
const FIRST: u32 = 8;
/// What is decided, as a register.
const DECISION: u32 = 0;

const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;

impl Expression {
    fn new(name: &str, data: &Attributes) -> Self {
        Self(Attributes::new().text(1, name).nested(2, data))
    }

    /// As an element of a rule's list.
    pub fn attributes(&self) -> &Attributes {
        &self.0
    }
}

/// It comes in by an interface.
pub fn comes_in_by(interface: &str) -> Vec<Expression> {
    vec![meta(META_IIFNAME, FIRST), compare(true, &name(interface))]
}

/// It goes out by an interface.
pub fn goes_out_by(interface: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), compare(true, &name(interface))]
}

/// It goes out by another interface.
pub fn goes_out_elsewhere(interface: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), compare(false, &name(interface))]
}

/// It is of a family.
pub fn is_of(family: Family) -> Vec<Expression> {
    vec![meta(META_NFPROTO, FIRST), compare(true, &[family.number()])]
}

/// It is from an address that begins with as many bits of `address`.
pub fn is_from(family: Family, address: &[u8], bits: u8) -> Vec<Expression> {
    begins(family, family.source_offset(), address, bits)
}

/// It is to an address that begins with as many bits of `address`.
pub fn is_to(family: Family, address: &[u8], bits: u8) -> Vec<Expression> {
    begins(family, family.destination_offset(), address, bits)
}

/// It is to an address that stands in no range of a set.
pub fn is_to_none_of(family: Family, set: &str) -> Vec<Expression> {
    vec![destination(family, FIRST), lookup(set, None, true)]
}

/// It is to an address of this host.
pub fn is_to_this_host() -> Vec<Expression> {
    const RESULT_ADDRESS_TYPE: u32 = 3;
    const OF_DESTINATION: u32 = 2;
    /// `RTN_LOCAL` (linux/rtnetlink.h).
    const LOCAL: u32 = 2;
    let data = Attributes::new().number(1, FIRST).number(2, RESULT_ADDRESS_TYPE).number(3, OF_DESTINATION);
    vec![Expression::new("fib", &data), compare(true, &LOCAL.to_ne_bytes())]
}

/// Its connection was sent elsewhere than it was addressed to.
pub fn was_redirected() -> Vec<Expression> {
    const STATUS: u32 = 2;
    /// `IPS_DST_NAT` (linux/netfilter/nf_conntrack_common.h).
    const REDIRECTED: u32 = 1 << 5;
    let status = Attributes::new().number(1, FIRST).number(2, STATUS);
    vec![Expression::new("ct", &status), mask(&REDIRECTED.to_ne_bytes()), compare(false, &[0; 4])]
}

/// It is none of a connection that the kernel keeps track of.
pub fn is_of_no_connection() -> Vec<Expression> {
    const STATE: u32 = 0;
    /// `NF_CT_STATE_INVALID_BIT` and `NF_CT_STATE_UNTRACKED_BIT` (linux/netfilter/nf_conntrack_common.h).
    const UNKNOWN: u32 = 1 | 1 << 6;
    let state = Attributes::new().number(1, FIRST).number(2, STATE);
    vec![Expression::new("ct", &state), mask(&UNKNOWN.to_ne_bytes()), compare(false, &[0; 4])]
}

/// It goes the way of its connection's first packet, so it answers nothing.
pub fn is_no_answer() -> Vec<Expression> {
    const DIRECTION: u32 = 1;
    let direction = Attributes::new().number(1, FIRST).number(2, DIRECTION);
    vec![Expression::new("ct", &direction), compare(true, &[ORIGINAL])]
}

/// Its connection was addressed to what a map has a value for, whatever has become of the address since.
pub fn was_addressed_to(family: Family, map: &str, by_address: bool) -> Vec<Expression> {
    /// `NFT_CT_PROTO_DST`.
    const PORT: u32 = 12;
    let protocol = if by_address { FIRST + words(family) } else { FIRST };
    let mut all = if by_address { vec![asked(family.asked_address(), FIRST)] } else { Vec::new() };
    all.extend([
        meta(META_L4PROTO, protocol),
        asked(PORT, protocol + 1),
        // Whether there is a value is all that counts.
        lookup(map, Some(FIRST), false),
    ]);
    all
}

/// It is sent to where a map says for its protocol and port, and for its address as well if `by_address`; the rule ends if
/// the map says nothing.
pub fn redirect(family: Family, map: &str, by_address: bool) -> Vec<Expression> {
    const DESTINATION: u32 = 1;
    const PORT_OFFSET: u32 = 2;
    let protocol = if by_address { FIRST + words(family) } else { FIRST };
    let port = payload(BASE_TRANSPORT, PORT_OFFSET, 2, protocol + 1);
    let to = Attributes::new()
        .number(1, DESTINATION)
        .number(2, u32::from(family.number()))
        .number(3, FIRST)
        .number(5, FIRST + words(family));
    let mut all = if by_address { vec![destination(family, FIRST)] } else { Vec::new() };
    all.extend([
        meta(META_L4PROTO, protocol),
        port,
        lookup(map, Some(FIRST), false),
        Expression::new("nat", &to),
    ]);
    all
}

/// It gets the address of the interface that it leaves by.
pub fn masquerade() -> Expression {
    Expression::new("masq", &Attributes::new())
}

/// It is counted.
pub fn count() -> Expression {
    Expression::new("counter", &Attributes::new())
}

/// It may pass this chain.
pub fn accept() -> Expression {
    decide(&Attributes::new().number(1, 1))
}

/// It goes no further.
pub fn drop() -> Expression {
    decide(&Attributes::new().number(1, 0))
}

/// The rules of another chain are next.
pub fn jump(chain: &str) -> Expression {
    const JUMP: i32 = -3;
    decide(&Attributes::new().bytes(1, &JUMP.to_be_bytes()).text(2, chain))
}

const BASE_NETWORK: u32 = 1;

/// `IP_CT_DIR_ORIGINAL`: the way of a connection's first packet.
const ORIGINAL: u8 = 0;
const BASE_TRANSPORT: u32 = 2;

fn begins(family: Family, offset: u32, address: &[u8], bits: u8) -> Vec<Expression> {
    let length = usize::from(family.address_length());
    let ones: Vec<u8> =
        (0..length).map(|byte| mask_byte(usize::from(bits).saturating_sub(byte * 8))).collect();
    let wanted: Vec<u8> = address.iter().zip(&ones).map(|(byte, ones)| byte & ones).collect();
    let whole = payload(BASE_NETWORK, offset, u32::from(family.address_length()), FIRST);
    vec![whole, mask(&ones), compare(true, &wanted)]
}

/// A byte whose first bits are ones.
fn mask_byte(ones: usize) -> u8 {
    u8::MAX.checked_shl(8 - ones.min(8) as u32).unwrap_or(0)
}

fn destination(family: Family, register: u32) -> Expression {
    payload(BASE_NETWORK, family.destination_offset(), u32::from(family.address_length()), register)
}

/// Registers that an address takes.
fn words(family: Family) -> u32 {
    u32::from(family.address_length()) / 4
}

/// What a connection was asked for with, by its first packet.
fn asked(key: u32, register: u32) -> Expression {
    Expression::new("ct", &Attributes::new().number(1, register).number(2, key).bytes(3, &[ORIGINAL]))
}

/// The name of an interface as iptables compares it: with the zero at its end.
fn name(interface: &str) -> Vec<u8> {
    [interface.as_bytes(), &[0]].concat()
}

fn meta(key: u32, register: u32) -> Expression {
    Expression::new("meta", &Attributes::new().number(1, register).number(2, key))
}

fn payload(base: u32, offset: u32, length: u32, register: u32) -> Expression {
    let data = Attributes::new().number(1, register).number(2, base).number(3, offset).number(4, length);
    Expression::new("payload", &data)
}

fn mask(ones: &[u8]) -> Expression {
    let data = Attributes::new()
        .number(1, FIRST)
        .number(2, FIRST)
        .number(3, ones.len() as u32)
        .nested(4, &value(ones))
        .nested(5, &value(&vec![0; ones.len()]));
    Expression::new("bitwise", &data)
}

fn compare(equal: bool, with: &[u8]) -> Expression {
    let data = Attributes::new().number(1, FIRST).number(2, u32::from(!equal)).nested(3, &value(with));
    Expression::new("cmp", &data)
}

fn lookup(set: &str, into: Option<u32>, inverted: bool) -> Expression {
    let mut data = Attributes::new().text(1, set).number(2, FIRST);
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

/// A value as an attribute of nf_tables.
pub fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::Family;
    use super::{Expression, begins, comes_in_by, mask_byte, redirect};
    use crate::network::nft::wire::{Message, find, messages, number, text};

    /// Name and data of an expression, as the kernel reads it.
    fn read(expression: &Expression) -> (String, Vec<u8>) {
        let mut bytes = Vec::new();
        Message::new(0, 0, 0, expression.attributes().clone()).write(0, &mut bytes);
        let message = messages(&bytes).next().unwrap();
        (text(message.attributes(), 1).unwrap(), find(message.attributes(), 2).unwrap().to_vec())
    }

    #[test]
    fn a_prefix_ends_within_a_byte() {
        assert_eq!([0, 1, 7, 8, 9].map(mask_byte), [0, 0x80, 0xfe, 0xff, 0xff]);
        let all = begins(Family::V4, 12, &[10, 244, 7, 9], 22);
        let (_, ones) = read(&all[1]);
        assert_eq!(find(find(&ones, 4).unwrap(), 1).unwrap(), [255, 255, 252, 0]);
        let (_, compared) = read(&all[2]);
        assert_eq!(find(find(&compared, 3).unwrap(), 1).unwrap(), [10, 244, 4, 0], "the rest does not count");
    }

    #[test]
    fn a_name_is_compared_to_its_end() {
        let (name, data) = read(&comes_in_by("br0")[1]);
        assert_eq!((name.as_str(), find(find(&data, 3).unwrap(), 1).unwrap()), ("cmp", &b"br0\0"[..]));
    }

    #[test]
    fn a_destination_of_the_sixth_version_takes_four_registers() {
        let all = redirect(Family::V6, "ports_at6", true);
        let names: Vec<String> = all.iter().map(|one| read(one).0).collect();
        assert_eq!(names, ["payload", "meta", "payload", "lookup", "nat"]);
        let register = |at: usize, kind: u16| number(&read(&all[at]).1, kind);
        assert_eq!([register(0, 1), register(1, 1), register(2, 1)], [Some(8), Some(12), Some(13)]);
        assert_eq!([register(4, 3), register(4, 5)], [Some(8), Some(12)], "address, then port");
    }
}
