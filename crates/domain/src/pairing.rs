//! Pairing codes, by which an owner approves a stranger, and the turns that Satchel starts itself.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    AttachmentId, ChannelName, ConversationId, ReminderId, SATCHEL_SENDER_ID, Sender, reminder::ReminderOrigin,
};

/// The letters of a pairing code: 32, so that each carries five bits, and none that is easily read as another.
pub const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Letters in a code.
const CODE_LEN: usize = 8;

/// A one-time code by which an owner approves a stranger: eight letters, written `ABCD-EFGH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PairingCode([u8; CODE_LEN]);

impl PairingCode {
    /// Makes a code of the lowest forty of the random bits.
    #[must_use]
    pub fn from_random_bits(mut bits: u64) -> Self {
        Self(std::array::from_fn(|_| {
            let letter = ALPHABET[(bits % 32) as usize];
            bits /= 32;
            letter
        }))
    }

    /// Compares two codes in constant time, so that the response time doesn't reveal how many letters are right.
    #[must_use]
    pub fn ct_eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differences, (one, two)| differences | (one ^ two)) == 0
    }
}

/// What stands before the number in the keys of the messages that give a stranger this code.
#[must_use]
pub fn offer_key_prefix(code: PairingCode) -> String {
    format!("{SATCHEL_SENDER_ID}:introduce:{code}:")
}

/// The key of the message that gives a stranger this code for the nth time, from 0.
#[must_use]
pub fn offer_key(code: PairingCode, nth: u32) -> String {
    format!("{}{nth}", offer_key_prefix(code))
}

/// What stands before the conversation in the keys of the messages that ask owners about the stranger with this code.
#[must_use]
pub fn approval_key_prefix(code: PairingCode) -> String {
    format!("{SATCHEL_SENDER_ID}:ask:{code}:")
}

/// The key of the message that asks an owner in this conversation about the stranger with this code.
#[must_use]
pub fn approval_key(code: PairingCode, conversation: &ConversationId) -> String {
    format!("{}{conversation}", approval_key_prefix(code))
}

/// Reads the code from the key of a message that asks an owner about a stranger; `None` for any other key.
#[must_use]
pub fn approval_code(key: &str) -> Option<PairingCode> {
    let (code, _) = key.strip_prefix(SATCHEL_SENDER_ID)?.strip_prefix(":ask:")?.split_once(':')?;
    code.parse().ok()
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, letter) in self.0.iter().enumerate() {
            if position == CODE_LEN / 2 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*letter))?;
        }
        Ok(())
    }
}

/// The text isn't a pairing code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a pairing code: they look like ABCD-EFGH")]
pub struct ParsePairingCodeError;

impl FromStr for PairingCode {
    type Err = ParsePairingCodeError;

    /// Reads a code as people write it: small letters and any dashes will do.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut letters = text.bytes().filter(|byte| *byte != b'-').map(|byte| byte.to_ascii_uppercase());
        let mut code = [0; CODE_LEN];
        for slot in &mut code {
            *slot = letters.next().filter(|letter| ALPHABET.contains(letter)).ok_or(ParsePairingCodeError)?;
        }
        match letters.next() {
            None => Ok(Self(code)),
            Some(_) => Err(ParsePairingCodeError),
        }
    }
}

impl Serialize for PairingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PairingCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A turn that Satchel starts itself. A message from a person never carries one.
///
/// The stored names are those of the first version (`errand`, `introduce`, `ask_owner`, `welcome`, `scheduled`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "errand", rename_all = "snake_case")]
pub enum SystemTask {
    /// Gives a stranger the code by which an owner can approve them.
    #[serde(rename = "introduce")]
    OfferPairing {
        /// The code.
        code: PairingCode,
    },
    /// Asks an owner to approve a stranger.
    #[serde(rename = "ask_owner")]
    RequestApproval {
        /// The stranger's code.
        code: PairingCode,
        /// The stranger.
        person: Sender,
        /// The channel on which they wrote.
        channel: ChannelName,
    },
    /// Confirms to a person that they are approved.
    #[serde(rename = "welcome")]
    ConfirmPairing,
    /// Tells a person that an owner has refused them.
    ReportRefusal,
    /// Tells which files are removed because of their age or number.
    FilesExpired {
        /// The first of them, each as a line of a list.
        files: Vec<String>,
        /// How many more there are.
        more: u32,
    },
    /// Tells owners that a channel is closed because its platform refuses the bot's account.
    ChannelClosed {
        /// The platform's name.
        platform: String,
        /// The reason, as text that follows the name.
        reason: String,
        /// What an owner can do about it.
        remedy: String,
    },
    /// Sends the text of a part once more, because an operator asks for it.
    ResendText {
        /// The text.
        text: String,
    },
    /// Delivers the text of another program, with the files of the message.
    #[serde(rename = "notification")]
    DeliverNotification {
        /// The text; empty if there are only files.
        text: String,
    },
    /// Runs the message's text as a task because its schedule is due.
    #[serde(rename = "scheduled")]
    RunSchedule {
        /// The schedule's name.
        name: String,
        /// When it was due, as people of its time zone write it.
        due: String,
    },
    /// Delivers the text and the files of a reminder that is due.
    #[serde(rename = "reminder")]
    DeliverReminder {
        /// The reminder.
        reminder: ReminderId,
        /// Its text.
        text: String,
        /// Its files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<AttachmentId>,
        /// When it was due, as people of its time zone write it, if that was a while ago.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missed: Option<String>,
        /// Who made it and when; `None` in what earlier versions stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<ReminderOrigin>,
    },
    /// Gives the message's text to the model, for the message's sender, because a reminder is due.
    #[serde(rename = "reminder_prompt")]
    RunReminder {
        /// The reminder.
        reminder: ReminderId,
        /// When it was due, as people of its time zone write it.
        due: String,
        /// Who made it and when; `None` in what earlier versions stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<ReminderOrigin>,
    },
}

impl SystemTask {
    /// Returns whether the turn runs for the message's sender, with their rights and within their limits.
    #[must_use]
    pub fn runs_for_sender(&self) -> bool {
        matches!(self, Self::DeliverReminder { .. } | Self::RunReminder { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_parses_as_people_write_it() {
        let code = PairingCode::from_random_bits(0x0123_4567_89ab_cdef);
        let text = code.to_string();
        assert_eq!((text.len(), text.as_bytes()[4]), (9, b'-'));
        for written in [text.clone(), text.to_lowercase(), text.replace('-', ""), format!("-{text}-")] {
            assert!(written.parse::<PairingCode>().unwrap().ct_eq(&code), "{written}");
        }
        let long = format!("{text}A");
        for wrong in ["", "ABCD-EFG", "ABCD-EFG1", "ABCD-EFGO", "ABCD EFGH", "АBCD-EFGH", "--------", long.as_str()] {
            assert_eq!(wrong.parse::<PairingCode>(), Err(ParsePairingCodeError), "{wrong}");
        }
    }

    #[test]
    fn all_forty_bits_count() {
        let code = PairingCode::from_random_bits(0);
        for bit in 0..40 {
            assert!(!PairingCode::from_random_bits(1 << bit).ct_eq(&code), "bit {bit}");
        }
        assert!(PairingCode::from_random_bits(1 << 40).ct_eq(&code));
    }
}
