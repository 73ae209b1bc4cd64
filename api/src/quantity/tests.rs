//! Tests of parsing and formatting quantities.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::{Format, Quantity, QuantityError};

fn read(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn the_canonical_form() {
    for (text, canonical) in [
        ("0", "0"),
        ("0Mi", "0"),
        ("-0", "0"),
        ("0e3", "0"),
        ("1", "1"),
        ("+1", "1"),
        (".5", "500m"),
        ("5.", "5"),
        ("0.1", "100m"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("0.5m", "500u"),
        ("0.1n", "1n"),
        ("0.0000000001", "1n"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1023Ki", "1023Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("1000", "1k"),
        ("1000k", "1M"),
        ("123456", "123456"),
        ("12e6", "12e6"),
        ("1.2E1", "12"),
        ("1500e-3", "1500e-3"),
        ("1E", "1E"),
        ("-5Gi", "-5Gi"),
        ("10E", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("8Ei", "9223372036854775807"),
        ("1e308", "9223372036854775807"),
        ("1e-308", "1e-9"),
        ("0.00000000000000000000000000001Ei", "1n"),
    ] {
        assert_eq!(read(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn invalid_quantities() {
    for (text, error) in [
        ("", QuantityError::NotANumber),
        ("-", QuantityError::NotANumber),
        (".", QuantityError::NotANumber),
        ("1.2.3", QuantityError::NotANumber),
        ("Gi", QuantityError::NotANumber),
        (" 1", QuantityError::NotANumber),
        ("1 Gi", QuantityError::Suffix),
        ("1GB", QuantityError::Suffix),
        ("1gi", QuantityError::Suffix),
        ("1K", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1e1.5", QuantityError::Suffix),
        ("1é", QuantityError::Suffix),
        ("1e309", QuantityError::Exponent),
        ("1E-309", QuantityError::Exponent),
        ("1e9223372036854775807", QuantityError::Exponent),
        ("1e-9223372036854775808", QuantityError::Exponent),
        (&"1".repeat(1_000_000), QuantityError::TooLong),
        (&format!("0.{}1", "0".repeat(1_000_000)), QuantityError::TooLong),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
    }
}

#[test]
fn quantities_round_away_from_zero() {
    assert_eq!(read("100m").units(), 1);
    assert_eq!(read("-100m").units(), -1);
    assert_eq!(read("1001u").milli(), 2);
    assert_eq!(read("1.5Gi").units(), 1_610_612_736);
    assert_eq!(read("10E").milli(), i64::MAX);
    assert_eq!(read("1u").rounded_to_milli(), read("1m"));
}

#[test]
fn sum_keeps_the_format_of_its_first_quantity() {
    assert_eq!(read("1Gi").plus(read("1G")).to_string(), "2073741824");
    assert_eq!(Quantity::ZERO.plus(read("1Gi")).to_string(), "1Gi");
    assert_eq!(read("9E").plus(read("9E")).units(), i64::MAX);
    assert!(read("1Ki") > read("1k") && read("1024") == read("1Ki"));
}

proptest! {
    #[test]
    fn canonical_text_reads_back_as_the_same_amount(
        mantissa in -1_000_000_000_000_i64..1_000_000_000_000,
        places in 0_usize..6,
        suffix in prop::sample::select(vec!["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e2", "e-4"]),
    ) {
        let digits = format!("{:07}", mantissa.unsigned_abs());
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let text = format!("{}{whole}.{fraction}{suffix}", if mantissa < 0 { "-" } else { "" });
        let quantity = read(&text);
        let canonical = quantity.to_string();
        prop_assert_eq!(read(&canonical), quantity, "{} -> {}", text, canonical);
        prop_assert!(!canonical.contains('.'));
    }

    #[test]
    fn quantity_parser_never_panics(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(read(&quantity.to_string()), quantity);
        }
    }

    #[test]
    fn whole_units_are_exact(units in any::<i64>()) {
        prop_assume!(units != i64::MIN);
        prop_assert_eq!(Quantity::from_units(units, Format::BinarySi).units(), units);
        prop_assert_eq!(read(&units.to_string()).units(), units);
    }
}
