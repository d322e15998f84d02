//! Who may talk because an owner said so, and who asks to.

use std::time::Duration;

use satchel_domain::{ChannelName, ConversationId, PairingCode, Sender, Timestamp};
use serde::Serialize;

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Person {
    /// Where they may talk.
    pub channel: ChannelName,
    /// Who they are, under the names that they had when they asked.
    pub person: Sender,
    /// When they were let in.
    pub let_in_at: Timestamp,
    /// Who let them in.
    pub let_in_by: String,
}

/// Somebody whom nobody knows and who wrote in private.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Who they are.
    pub person: Sender,
    /// Where they wrote, and are answered.
    pub conversation: ConversationId,
}

/// A code by which somebody can be let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// The code.
    pub code: PairingCode,
    /// Who asked.
    pub person: Sender,
    /// Where they asked, and are told that they were let in.
    pub conversation: ConversationId,
    /// When the code was made.
    pub issued_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// How codes are handed out and judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairingRules {
    /// How long a code lives, and how long whoever guessed too often is locked out.
    pub lives: Duration,
    /// How many codes of a channel are open at once; strangers beyond them get none.
    pub open: u32,
    /// How many wrong codes somebody may say before they are locked out.
    pub tries: u32,
    /// How long somebody who was refused gets no other code.
    pub refused_for: Duration,
}

impl Default for PairingRules {
    fn default() -> Self {
        let hour = Duration::from_secs(60 * 60);
        Self { lives: hour, open: 20, tries: 5, refused_for: 24 * hour }
    }
}

/// What somebody who may decide says about a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The code.
    pub code: PairingCode,
    /// Whether its person is let in or refused.
    pub let_in: bool,
    /// The channel whose codes they may decide about; `None` for all.
    pub of: Option<ChannelName>,
    /// Who decides, by a name that stays theirs: wrong codes are counted by it.
    pub by: String,
}

/// What became of a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The person may talk from now on.
    LetIn(Pairing),
    /// The person was refused.
    Refused(Pairing),
    /// The code had been used for this person before, to let them in or to refuse them.
    Used {
        /// Whose code it was.
        person: Sender,
        /// Whether it let them in.
        let_in: bool,
    },
    /// The code had ended before.
    Expired,
    /// There is no such code where they may decide.
    Unknown {
        /// How many wrong codes they may still say.
        tries_left: u32,
    },
    /// They said too many wrong codes; until then even a right one counts for nothing.
    Locked {
        /// When that ends.
        until: Timestamp,
    },
}
