//! Counts characters as channels do.

/// Counts UTF-16 code units.
#[must_use]
pub fn utf16_units(text: &str) -> usize {
    sum_weights(text, |byte| u8::from(is_char_start(byte)) + u8::from(byte >= 0xF0))
}

/// Counts Unicode scalar values.
#[must_use]
pub fn scalar_values(text: &str) -> usize {
    sum_weights(text, |byte| u8::from(is_char_start(byte)))
}

/// Counts UTF-16 code units or scalar values, and once more the bytes of which something is true.
pub(crate) fn weighted_units(text: &str, counts_scalars: bool, is_counted: impl Fn(u8) -> bool + Copy) -> usize {
    if counts_scalars {
        return scalar_values(text) + count_bytes(text, is_counted);
    }
    sum_weights(text, |byte| u8::from(is_char_start(byte)) + u8::from(byte >= 0xF0) + u8::from(is_counted(byte)))
}

/// Counts the bytes of which something is true.
pub(crate) fn count_bytes(text: &str, is_counted: impl Fn(u8) -> bool + Copy) -> usize {
    sum_weights(text, |byte| u8::from(is_counted(byte)))
}

/// Whether a character begins with this byte.
fn is_char_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// Adds up what each byte counts, at most three, as many bytes at a time as the processor can.
fn sum_weights(text: &str, weight: impl Fn(u8) -> u8 + Copy) -> usize {
    let blocks = text.as_bytes().chunks_exact(64);
    let rest: usize = blocks.remainder().iter().map(|byte| usize::from(weight(*byte))).sum();
    rest + blocks.map(|block| usize::from(block.iter().map(|byte| weight(*byte)).sum::<u8>())).sum::<usize>()
}
