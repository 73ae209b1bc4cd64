//! CEL library for IP addresses and CIDRs: `cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::arguments::{own, text};
use cel::{Budget, Error, Function, Kind, Returns, Type, Value, function, method};

use super::foreign;

const IP: &str = "net.IP";
const CIDR: &str = "net.CIDR";
const TEXT: &[Kind] = &[Kind::Text];
const ONE_IP: &[Kind] = &[Kind::Opaque(IP)];
const ONE_CIDR: &[Kind] = &[Kind::Opaque(CIDR)];
const BOOL: Returns = Returns::Is(Type::Bool);

/// An IP address.
#[derive(Debug, PartialEq, Eq)]
struct Ip(IpAddr);

/// A CIDR. The address may have host bits.
#[derive(Debug, PartialEq, Eq)]
struct Cidr {
    ip: IpAddr,
    length: u8,
}

foreign!(Ip, IP);
foreign!(Cidr, CIDR);

pub(super) static FUNCTIONS: &[Function] = &[
    function("ip", TEXT, Returns::Is(Type::Opaque(IP)), |of, budget| {
        read_ip(paid(of, 0, budget)?).map(|ip| Value::opaque(Ip(ip)))
    }),
    function("isIP", TEXT, BOOL, |of, budget| Ok(Value::Bool(read_ip(paid(of, 0, budget)?).is_ok()))),
    function("ip.isCanonical", TEXT, BOOL, |of, budget| {
        let text = paid(of, 0, budget)?;
        Ok(Value::Bool(read_ip(text)?.to_string() == text))
    }),
    function("string", ONE_IP, Returns::Is(Type::String), |of, _| Ok(Value::from(ip(of)?.to_string()))),
    method("family", ONE_IP, Returns::Is(Type::Int), |of, _| {
        Ok(Value::Int(if ip(of)?.is_ipv4() { 4 } else { 6 }))
    }),
    method("isUnspecified", ONE_IP, BOOL, |of, _| Ok(Value::Bool(ip(of)?.is_unspecified()))),
    method("isLoopback", ONE_IP, BOOL, |of, _| Ok(Value::Bool(ip(of)?.is_loopback()))),
    method("isLinkLocalMulticast", ONE_IP, BOOL, |of, _| {
        Ok(Value::Bool(match ip(of)? {
            IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }))
    }),
    method("isLinkLocalUnicast", ONE_IP, BOOL, |of, _| Ok(Value::Bool(is_link_local(ip(of)?)))),
    method("isGlobalUnicast", ONE_IP, BOOL, |of, _| {
        let ip = ip(of)?;
        let is_other = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
        Ok(Value::Bool(!is_other && ip != IpAddr::V4(Ipv4Addr::BROADCAST)))
    }),
    function("cidr", TEXT, Returns::Is(Type::Opaque(CIDR)), |of, budget| {
        read_cidr(paid(of, 0, budget)?).map(Value::opaque)
    }),
    function("isCIDR", TEXT, BOOL, |of, budget| Ok(Value::Bool(read_cidr(paid(of, 0, budget)?).is_ok()))),
    function("string", ONE_CIDR, Returns::Is(Type::String), |of, _| {
        let cidr: &Cidr = own(of, 0)?;
        Ok(Value::from(format!("{}/{}", cidr.ip, cidr.length)))
    }),
    method("containsIP", &[Kind::Opaque(CIDR), Kind::Opaque(IP)], BOOL, |of, _| {
        let (cidr, ip): (&Cidr, &Ip) = (own(of, 0)?, own(of, 1)?);
        Ok(Value::Bool(cidr.has(ip.0)))
    }),
    method("containsIP", &[Kind::Opaque(CIDR), Kind::Text], BOOL, |of, budget| {
        let cidr: &Cidr = own(of, 0)?;
        Ok(Value::Bool(cidr.has(read_ip(paid(of, 1, budget)?)?)))
    }),
    method("containsCIDR", &[Kind::Opaque(CIDR), Kind::Opaque(CIDR)], BOOL, |of, _| {
        let (cidr, other): (&Cidr, &Cidr) = (own(of, 0)?, own(of, 1)?);
        Ok(Value::Bool(cidr.has(other.ip) && other.length >= cidr.length))
    }),
    method("containsCIDR", &[Kind::Opaque(CIDR), Kind::Text], BOOL, |of, budget| {
        let (cidr, other): (&Cidr, Cidr) = (own(of, 0)?, read_cidr(paid(of, 1, budget)?)?);
        Ok(Value::Bool(cidr.has(other.ip) && other.length >= cidr.length))
    }),
    method("ip", ONE_CIDR, Returns::Is(Type::Opaque(IP)), |of, _| {
        let cidr: &Cidr = own(of, 0)?;
        Ok(Value::opaque(Ip(cidr.ip)))
    }),
    method("masked", ONE_CIDR, Returns::Is(Type::Opaque(CIDR)), |of, _| {
        let cidr: &Cidr = own(of, 0)?;
        Ok(Value::opaque(Cidr { ip: masked(cidr.ip, cidr.length), length: cidr.length }))
    }),
    method("prefixLength", ONE_CIDR, Returns::Is(Type::Int), |of, _| {
        let cidr: &Cidr = own(of, 0)?;
        Ok(Value::Int(cidr.length.into()))
    }),
];

impl Cidr {
    fn has(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.ip.is_ipv4() && masked(ip, self.length) == masked(self.ip, self.length)
    }
}

/// Returns the text argument at an index, and charges the budget for parsing it.
fn paid<'a>(of: &'a [Value], at: usize, budget: &mut Budget) -> Result<&'a str, Error> {
    let text = text(of, at)?;
    budget.charge_bytes(text.len())?;
    Ok(text)
}

fn ip(of: &[Value]) -> Result<IpAddr, Error> {
    own(of, 0).map(|ip: &Ip| ip.0)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Parses an IP address. IPv4-mapped IPv6 addresses are rejected, because they are ambiguous.
fn read_ip(text: &str) -> Result<IpAddr, Error> {
    let wrong = || Error::failed(format!("IP Address {text:?} parse error during conversion from string"));
    let ip: IpAddr = text.parse().map_err(|_| wrong())?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(wrong()),
        ip => Ok(ip),
    }
}

fn read_cidr(text: &str) -> Result<Cidr, Error> {
    let wrong =
        || Error::failed(format!("network address parse error during conversion from string: {text:?}"));
    let (ip, length) = text.split_once('/').ok_or_else(wrong)?;
    let ip = read_ip(ip).map_err(|_| wrong())?;
    let is_plain =
        length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let length = length.parse().ok().filter(|length: &u8| is_plain && *length <= most);
    Ok(Cidr { ip, length: length.ok_or_else(wrong)? })
}

/// Clears the host bits of an address.
fn masked(ip: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}
