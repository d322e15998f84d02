//! An error in one line.

use std::{error::Error, iter::successors};

/// Returns an error with all its causes, as in `no answer: connection refused`.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    successors(Some(error), |&error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no answer")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn causes_follow_their_error() {
        let expected = format!("no answer: {}", std::fmt::Error);
        assert_eq!(error_chain(&Outer(std::fmt::Error)), expected);
        assert_eq!(error_chain(&std::fmt::Error), std::fmt::Error.to_string());
    }
}
