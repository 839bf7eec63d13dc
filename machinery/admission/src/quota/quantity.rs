//! Quantities of objects.

/// Returns a quantity as a whole number, rounded down; `None` when it is none. Counts have no fraction, so
/// that the forms that kube-apiserver writes for them are enough: digits, and the suffixes `k` to `E` and
/// `Ki` to `Ei`.
pub(super) fn whole(quantity: &str) -> Option<i64> {
    let digits = quantity.len() - quantity.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').len();
    let (number, suffix) = quantity.split_at_checked(digits)?;
    let number: i64 = number.parse().ok()?;
    let factor: i64 = match suffix {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        "m" => return Some(number.div_euclid(1000)),
        _ => return None,
    };
    Some(number.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kube_apiserver_writes_them() {
        let cases = [
            ("0", Some(0)),
            ("20", Some(20)),
            ("1k", Some(1000)),
            ("2Ki", Some(2048)),
            ("1500m", Some(1)),
            ("99E", Some(i64::MAX)),
            ("", None),
            ("ten", None),
        ];
        for (quantity, expected) in cases {
            assert_eq!(whole(quantity), expected, "{quantity}");
        }
    }
}
