//! What every blob store does with bytes, wherever it keeps them: joins them into blocks under a limit, hashes and
//! verifies them, and detects their type.

pub mod copy;
pub mod detect;
pub mod digest;
