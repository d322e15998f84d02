//! What an answer, or its absence, says about whether something arrived.

use std::error::Error;

use satchel_domain::delivery::SendError;
use serde_json::Value;

use crate::{
    channel::refusal,
    wire::{Answer, Why, WireError},
};

/// Why no answer came.
pub(crate) enum NoAnswer {
    /// There was no connection to write the request to.
    NotConnected(String),
    /// The request may have been read.
    Lost(String),
}

/// Tells the two apart. Only a failure to connect says that nothing was written.
pub(crate) fn no_answer(error: &reqwest::Error) -> NoAnswer {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        reason = deeper.to_string();
        source = deeper.source();
    }
    if error.is_connect() { NoAnswer::NotConnected(reason) } else { NoAnswer::Lost(reason) }
}

/// Reads an answer, whatever its status. What can't be read leaves the request in doubt: a proxy that answers in the
/// platform's place does not know what the platform did.
pub(crate) fn decode(body: &[u8]) -> Result<Result<Value, WireError>, SendError> {
    match serde_json::from_slice::<Answer>(body) {
        Ok(Answer { ok: true, result, .. }) => Ok(Ok(result)),
        Ok(Answer { error: Some(error), .. }) => Ok(Err(error)),
        Ok(_) => Err(SendError::InDoubt { reason: "the answer is neither yes nor no".to_owned() }),
        Err(error) => Err(SendError::InDoubt { reason: format!("the answer can't be read: {error}") }),
    }
}

/// What a readable no means.
pub(crate) fn send_error(error: WireError) -> SendError {
    let reason = error.description;
    match (error.status, error.why) {
        (429, Why::RateLimited { retry_after_ms }) => {
            SendError::NotSent { retry_after_ms: Some(retry_after_ms), reason }
        }
        (429 | 500..=599, _) => SendError::NotSent { retry_after_ms: None, reason },
        (_, Why::TargetGone) => SendError::Refused { refusal: refusal(&Why::TargetGone), reason },
        (401 | 403 | 404, _) | (_, Why::Forbidden) => SendError::Forbidden { reason },
        (_, why) => SendError::Refused { refusal: refusal(&why), reason },
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::delivery::Refusal;

    use super::*;

    #[test]
    fn every_answer_has_one_meaning() {
        let no = |status, why| send_error(WireError::new(status, why, "words"));
        let reason = || "words".to_owned();
        let refused = |refusal| SendError::Refused { refusal, reason: reason() };
        let not_sent = |retry_after_ms| SendError::NotSent { retry_after_ms, reason: reason() };
        for (answer, meaning) in [
            (no(429, Why::RateLimited { retry_after_ms: 7 }), not_sent(Some(7))),
            (no(500, Why::Server), not_sent(None)),
            (no(502, Why::Other), not_sent(None)),
            (no(403, Why::Forbidden), SendError::Forbidden { reason: reason() }),
            (no(400, Why::Forbidden), SendError::Forbidden { reason: reason() }),
            (no(404, Why::Other), SendError::Forbidden { reason: reason() }),
            (no(404, Why::TargetGone), refused(Refusal::TargetGone)),
            (no(413, Why::TooLarge { limit: Some(5) }), refused(Refusal::TooLarge { limit: Some(5) })),
            (no(400, Why::BadMarkup), refused(Refusal::BadMarkup)),
            (no(400, Why::Item { index: 2 }), refused(Refusal::Item { index: 2 })),
            (no(400, Why::VoiceForbidden), refused(Refusal::VoiceForbidden)),
            (no(400, Why::WrongKind), refused(Refusal::UnsupportedKind)),
            (no(400, Why::Other), refused(Refusal::Other)),
        ] {
            assert_eq!(answer, meaning);
        }
    }

    #[test]
    fn what_cannot_be_read_is_in_doubt() {
        for body in ["", "<html>502</html>", "{}", "{\"ok\":false}", "{\"ok\":true"] {
            assert!(matches!(decode(body.as_bytes()), Err(SendError::InDoubt { .. })), "{body}");
        }
        assert_eq!(decode(b"{\"ok\":true,\"result\":1}"), Ok(Ok(Value::from(1))));
    }
}
