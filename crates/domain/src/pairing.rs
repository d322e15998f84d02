//! Codes by which somebody unknown is let in, and what Satchel itself says on the way there.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ChannelName, Sender};

/// The letters of a code that people read to each other: none that looks like another, and as many as five bits can tell
/// apart.
pub const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// How many of them a code has.
const LENGTH: usize = 8;

/// What an owner says to let somebody in: eight letters, written `ABCD-EFGH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PairingCode([u8; LENGTH]);

impl PairingCode {
    /// A code of random bits; the lowest forty count.
    #[must_use]
    pub fn of_random(mut bits: u64) -> Self {
        Self(std::array::from_fn(|_| {
            let letter = LETTERS[(bits % 32) as usize];
            bits /= 32;
            letter
        }))
    }

    /// Whether it is this code. It takes as long for a code that differs in its first letter as for one that differs in
    /// its last, so that nobody can feel their way to one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differences, (one, two)| differences | (one ^ two)) == 0
    }
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, letter) in self.0.iter().enumerate() {
            if place == LENGTH / 2 {
                f.write_str("-")?;
            }
            write!(f, "{}", char::from(*letter))?;
        }
        Ok(())
    }
}

/// The text is no pairing code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a pairing code: they look like ABCD-EFGH")]
pub struct NotAPairingCode;

impl FromStr for PairingCode {
    type Err = NotAPairingCode;

    /// Reads a code as people write it: small letters and any dashes will do.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut letters = text.bytes().filter(|byte| *byte != b'-').map(|byte| byte.to_ascii_uppercase());
        let mut code = [0; LENGTH];
        for place in &mut code {
            *place = letters.next().filter(|letter| LETTERS.contains(letter)).ok_or(NotAPairingCode)?;
        }
        match letters.next() {
            None => Ok(Self(code)),
            Some(_) => Err(NotAPairingCode),
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

/// Something that Satchel itself has to say or to do in a conversation. Only Satchel queues one: what a person sends
/// never has any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "errand", rename_all = "snake_case")]
pub enum Errand {
    /// Tells somebody unknown by which code they can be let in.
    Introduce {
        /// The code.
        code: PairingCode,
    },
    /// Asks an owner whether somebody may be let in.
    AskOwner {
        /// By which code.
        code: PairingCode,
        /// Who asks to be let in.
        person: Sender,
        /// Where.
        channel: ChannelName,
    },
    /// Tells somebody that they were let in.
    Welcome,
    /// Tells which files are removed because of their age or number.
    FilesExpired {
        /// The first of them, each as a line of a list.
        files: Vec<String>,
        /// How many more there are.
        more: u32,
    },
    /// Does what the message's words ask for, because its time has come.
    Scheduled {
        /// The schedule's name.
        name: String,
        /// When it was due, as people of its time zone write it.
        due: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_people_write_it() {
        let code = PairingCode::of_random(0x0123_4567_89ab_cdef);
        let text = code.to_string();
        assert_eq!((text.len(), text.as_bytes()[4]), (9, b'-'));
        for written in [text.clone(), text.to_lowercase(), text.replace('-', ""), format!("-{text}-")] {
            assert!(written.parse::<PairingCode>().unwrap().is(&code), "{written}");
        }
        let long = format!("{text}A");
        for wrong in ["", "ABCD-EFG", "ABCD-EFG1", "ABCD-EFGO", "ABCD EFGH", "АBCD-EFGH", "--------", long.as_str()] {
            assert_eq!(wrong.parse::<PairingCode>(), Err(NotAPairingCode), "{wrong}");
        }
    }

    #[test]
    fn all_of_its_forty_bits_count() {
        let code = PairingCode::of_random(0);
        for bit in 0..40 {
            assert!(!PairingCode::of_random(1 << bit).is(&code), "bit {bit}");
        }
        assert!(PairingCode::of_random(1 << 40).is(&code));
    }
}
