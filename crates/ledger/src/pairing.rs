//! Codes by which people are let in: who gets one, and what a decision about one does.

use satchel_domain::{Sender, Timestamp};
use satchel_ports::ledger::{PairingOutcome, PairingRules};

/// What is known of a stranger's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrangerCodes {
    /// Whether they were refused not long ago.
    pub is_refused: bool,
    /// Whether they have a code that can still be used.
    pub has_code: bool,
    /// How many codes of the channel can still be used.
    pub open_codes: u64,
}

/// What a stranger gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrangerAnswer {
    /// The code that they have.
    Same,
    /// A new code.
    New,
    /// None.
    Nothing,
}

/// Says what a stranger gets.
#[must_use]
pub fn answer_stranger(codes: StrangerCodes, rules: &PairingRules) -> StrangerAnswer {
    match codes {
        StrangerCodes { is_refused: true, .. } => StrangerAnswer::Nothing,
        StrangerCodes { has_code: true, .. } => StrangerAnswer::Same,
        StrangerCodes { open_codes, .. } if open_codes >= u64::from(rules.max_open) => StrangerAnswer::Nothing,
        _ => StrangerAnswer::New,
    }
}

/// The wrong codes that somebody sent not long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempts {
    pub count: u32,
    /// When they are forgotten.
    pub until: Timestamp,
}

/// What became of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeState {
    /// Nobody has decided yet.
    Open,
    Approved,
    Refused,
}

/// A code that a decision names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCode {
    pub state: CodeState,
    pub expires_at: Timestamp,
    pub person: Sender,
}

/// What a decision about a code does.
#[derive(Debug, Clone, PartialEq)]
pub enum PairingStep {
    /// Nothing; this is the answer.
    Answer(PairingOutcome),
    /// Somebody sent a code that doesn't exist: this is stored, and answered with
    /// [`UnknownCode`](PairingOutcome::UnknownCode).
    RecordFailure(FailedAttempts),
    /// It is carried out.
    Decide,
}

/// Says what a decision about a code does. Who sent too many wrong codes isn't told about right ones either.
#[must_use]
pub fn decide_pairing(
    failed: FailedAttempts,
    found: Option<FoundCode>,
    rules: &PairingRules,
    now: Timestamp,
) -> PairingStep {
    if failed.count >= rules.max_attempts {
        return PairingStep::Answer(PairingOutcome::LockedOut { until: failed.until });
    }
    match found {
        None => PairingStep::RecordFailure(FailedAttempts {
            count: failed.count + 1,
            until: now.saturating_add(rules.code_ttl),
        }),
        Some(FoundCode { state: CodeState::Open, expires_at, .. }) if expires_at <= now => {
            PairingStep::Answer(PairingOutcome::Expired)
        }
        Some(FoundCode { state: CodeState::Open, .. }) => PairingStep::Decide,
        Some(FoundCode { state, person, .. }) => {
            PairingStep::Answer(PairingOutcome::AlreadyUsed { approved: state == CodeState::Approved, person })
        }
    }
}

/// Returns how many wrong codes are left to whoever has sent so many.
#[must_use]
pub fn attempts_left(failed: FailedAttempts, rules: &PairingRules) -> u32 {
    rules.max_attempts.saturating_sub(failed.count)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    const NOW: Timestamp = Timestamp(100);

    fn rules() -> PairingRules {
        let (code_ttl, refusal_cooldown) = (Duration::from_millis(50), Duration::from_millis(70));
        PairingRules { code_ttl, refusal_cooldown, max_open: 3, max_attempts: 5 }
    }

    #[rstest]
    #[case::refused(true, true, 0, StrangerAnswer::Nothing)]
    #[case::asks_again(false, true, 3, StrangerAnswer::Same)]
    #[case::too_many_ask(false, false, 3, StrangerAnswer::Nothing)]
    #[case::new(false, false, 2, StrangerAnswer::New)]
    fn stranger_gets(
        #[case] is_refused: bool,
        #[case] has_code: bool,
        #[case] open_codes: u64,
        #[case] expected: StrangerAnswer,
    ) {
        assert_eq!(answer_stranger(StrangerCodes { is_refused, has_code, open_codes }, &rules()), expected);
    }

    #[test]
    fn decision_is_carried_out_once_and_in_time() {
        let few = FailedAttempts { count: 4, until: NOW };
        let ada = Sender::new("7", "Ada");
        let code =
            |state, expires_at| Some(FoundCode { state, expires_at: Timestamp(expires_at), person: ada.clone() });
        let decide = |found| decide_pairing(few, found, &rules(), NOW);
        assert_eq!(decide(code(CodeState::Open, 101)), PairingStep::Decide);
        assert_eq!(decide(code(CodeState::Open, 100)), PairingStep::Answer(PairingOutcome::Expired));
        for (state, approved) in [(CodeState::Approved, true), (CodeState::Refused, false)] {
            let used = PairingOutcome::AlreadyUsed { approved, person: ada.clone() };
            assert_eq!(decide(code(state, 101)), PairingStep::Answer(used));
        }
    }

    #[test]
    fn guesses_are_counted_and_end() {
        let none = FailedAttempts { count: 0, until: NOW };
        let PairingStep::RecordFailure(first) = decide_pairing(none, None, &rules(), NOW) else {
            panic!("a wrong code is counted");
        };
        assert_eq!((first, attempts_left(first, &rules())), (FailedAttempts { count: 1, until: Timestamp(150) }, 4));
        let locked = FailedAttempts { count: 5, until: Timestamp(150) };
        let found = FoundCode { state: CodeState::Open, expires_at: Timestamp(101), person: Sender::new("7", "Ada") };
        let answer = PairingStep::Answer(PairingOutcome::LockedOut { until: Timestamp(150) });
        assert_eq!(decide_pairing(locked, Some(found), &rules(), NOW), answer, "a right one tells them nothing");
    }
}
