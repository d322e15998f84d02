//! Stable keys for input that has no id of its own: the same in every process and version.

use sha2::{Digest, Sha256};

/// Returns the first half of the SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn stable_key(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are stored in the database, so they must not change.
    #[test]
    fn a_key_stays_as_it_is() {
        assert_eq!(stable_key(b""), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_eq!(stable_key(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
