//! Sizes as people read them.

/// Writes a number of bytes in decimal units, as platforms state their limits: `900 B`, `245 KB`, `1.2 MB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    if tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::format_bytes;

    #[test]
    fn reads_like_a_person_would_write_it() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1 KB"), (1_250, "1.2 KB"), (245_000, "245 KB"), (50_000_000, "50 MB")]
        {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(format_bytes(u64::MAX), "18446744 TB");
    }
}
