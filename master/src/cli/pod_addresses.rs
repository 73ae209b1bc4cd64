//! Parses and validates the flags for pod CIDRs.

use command::InvalidValue;
use ipnet::IpNet;

use crate::options::PodAddresses;

/// The flags that [`check`] validates together.
pub const FLAGS: &[&str] =
    &["--cluster-cidr", "--node-cidr-mask-size", "--node-cidr-mask-size-ipv4", "--node-cidr-mask-size-ipv6"];

/// Parses a pod CIDR.
pub fn range(text: &str) -> Result<IpNet, InvalidValue> {
    let range = text.parse::<IpNet>().map(|range| range.trunc());
    let range = range.map_err(|_| "is not a network; write one like 10.244.0.0/16".to_owned())?;
    api::pod_cidr::reject_special_use(&range).map_or(Ok(range), Err)
}

/// The errors in the combination of the flags.
pub fn check(pods: &PodAddresses) -> Vec<String> {
    let families = |is_v4: bool| pods.ranges.iter().filter(|range| (range.addr().is_ipv4()) == is_v4).count();
    if families(true) > 1 || families(false) > 1 {
        return vec![
            "--cluster-cidr has two ranges of one IP family: write one IPv4 range, one IPv6 range, or one of each"
                .to_owned(),
        ];
    }
    if pods.piece.is_some() && pods.ranges.len() > 1 {
        return vec!["--node-cidr-mask-size applies to one IP family only: use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6".to_owned()];
    }
    let mistake = |range: &IpNet| {
        let (piece, shortest, longest) =
            (pods.piece_of(range), range.prefix_len(), range.max_prefix_len() - 2);
        let flag = match (pods.piece, range) {
            (Some(_), _) => "--node-cidr-mask-size",
            (None, IpNet::V4(_)) => "--node-cidr-mask-size-ipv4",
            (None, IpNet::V6(_)) => "--node-cidr-mask-size-ipv6",
        };
        (!(shortest..=longest).contains(&piece)).then(|| {
            format!(
                "{flag} is {piece}, but --cluster-cidr {range} needs a value from {shortest} to {longest}"
            )
        })
    };
    pods.ranges.iter().filter_map(mistake).collect()
}
