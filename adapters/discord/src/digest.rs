//! What has no id of its own gets one that is the same in every process and every version.

use sha2::{Digest, Sha256};

/// The first half of the SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn stable_key(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are kept in the database: they may not change.
    #[test]
    fn a_key_stays_as_it_is() {
        assert_eq!(stable_key(b""), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_eq!(stable_key(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
