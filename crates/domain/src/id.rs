//! Ids: one type each, so that a part can't be taken for a turn.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            /// Writes the type and the id on one line, `TurnId(0190c5a0-…)`, in pretty output too.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Reads the canonical, hyphenated form in small letters. Any other spelling of a UUID is refused, so that a text
            /// that names an id contains it as it is written everywhere.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match Uuid::try_parse(text) {
                    Ok(uuid) if *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text => Ok(Self(uuid)),
                    _ => Err(ParseIdError),
                }
            }
        }
    };
}

id!(
    /// A file that Satchel knows (UUIDv7).
    AttachmentId
);
id!(
    /// One batch of a person's input and everything that came of it (UUIDv7).
    TurnId
);
id!(
    /// One physical send (UUIDv7); also the idempotency key on channels that have one.
    PartId
);
id!(
    /// One message as a channel delivered it (UUIDv7).
    InboxId
);
id!(
    /// One login of a browser to the page (UUIDv7).
    LoginId
);

/// The text is not a hyphenated UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id: ids look like 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e")]
pub struct ParseIdError;

/// One tool call of a turn: the turn and the call's ordinal in it, counted from 0 over the whole turn.
///
/// The id is ours and not the model's, because providers repeat theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// The turn in which the model requested the call.
    pub turn: TurnId,
    /// The call's position in the turn, in the order of the model's requests.
    pub ordinal: u32,
}

/// From here on ordinals are those of calls that a call makes.
const NESTED_BASE: u32 = 1 << 20;

impl CallId {
    /// How many calls one call can make before their ids repeat.
    pub const MAX_NESTED: u32 = 1 << 12;

    /// The id of the `nth` call that this one makes. No call of a model has it: a turn's budget is far below.
    #[must_use]
    pub fn nested(self, nth: u32) -> Self {
        let first = NESTED_BASE.saturating_add(self.ordinal.saturating_mul(Self::MAX_NESTED));
        Self { ordinal: first.saturating_add(nth % Self::MAX_NESTED), ..self }
    }

    /// Returns whether `outer` made this call.
    #[must_use]
    pub fn is_nested_in(self, outer: Self) -> bool {
        self.turn == outer.turn && (outer.nested(0)..=outer.nested(Self::MAX_NESTED - 1)).contains(&self)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.turn, self.ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_within_calls_have_ids_of_their_own() {
        let call = |ordinal| CallId { turn: TurnId(Uuid::nil()), ordinal };
        let ids = [call(0), call(1), call(80), call(0).nested(0), call(0).nested(1), call(1).nested(0)];
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[at + 1..].contains(id), "{id}");
        }
        assert!(call(1).nested(7).is_nested_in(call(1)) && !call(1).nested(7).is_nested_in(call(2)));
        assert!(!call(1).is_nested_in(call(0)) && call(0).nested(CallId::MAX_NESTED - 1).is_nested_in(call(0)));
        assert!(call(10_000).nested(0) > call(10_000) && call(u32::MAX).nested(9).turn == call(0).turn);
    }

    #[test]
    fn debug_output_names_type_and_id() {
        let text = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
        let turn: TurnId = text.parse().unwrap();
        assert_eq!((format!("{turn:?}"), format!("{turn:#?}")), (format!("TurnId({text})"), format!("TurnId({text})")));
        assert_eq!(format!("{:?}", Some(PartId(turn.0))), format!("Some(PartId({text}))"));
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let text = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
        assert_eq!(text.parse::<AttachmentId>().map(|id| id.to_string()), Ok(text.to_owned()));
        for other in ["0190c5a07f3b7c628d5e3f1a2b4c5d6e", "{0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e}", "", "17"] {
            assert_eq!(other.parse::<AttachmentId>(), Err(ParseIdError), "{other}");
        }
        let in_capitals = "0190C5A0-7F3B-7C62-8D5E-3F1A2B4C5D6E";
        assert_eq!(in_capitals.parse::<AttachmentId>(), Err(ParseIdError), "a search for the id would not find it");
    }
}
