//! What calls of this process take of their turn's room for files, known before the ledger knows of it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{Attachment, AttachmentId, TurnId};

/// How many turns are remembered: many more than run at once, so that one which is forgotten has long ended.
const TURNS: usize = 1_000;

/// The claims of the turns that run. A model asks for several calls at once, and none is recorded before it has ended:
/// by the ledger alone, each would find the same room free.
#[derive(Default)]
pub(super) struct Claims(Mutex<BTreeMap<TurnId, Claimed>>);

#[derive(Default)]
struct Claimed {
    /// The bytes of the calls that run.
    running: u64,
    /// The files of the calls that have ended, which the ledger may know by now or not.
    added: HashMap<AttachmentId, u64>,
}

/// A call's own claim; given up when it is dropped, unless its files were added.
pub(super) struct Claim<'c> {
    claims: &'c Claims,
    turn: TurnId,
    /// The turn's files as the ledger knew them.
    recorded: HashMap<AttachmentId, u64>,
    bytes: u64,
    limit: u64,
}

impl Claims {
    /// Claims bytes for a call.
    ///
    /// # Errors
    /// When the turn's other files leave no room for them: how many bytes these have.
    pub(super) fn claim(
        &self,
        turn: TurnId,
        bytes: u64,
        recorded: &[Attachment],
        limit: u64,
    ) -> Result<Claim<'_>, u64> {
        let recorded = sizes(recorded);
        let mut turns = self.lock();
        while turns.len() >= TURNS && !turns.contains_key(&turn) {
            turns.pop_first();
        }
        let claimed = turns.entry(turn).or_default();
        let others = claimed.bytes_with(&recorded);
        if others.saturating_add(bytes) > limit {
            return Err(others);
        }
        claimed.running += bytes;
        Ok(Claim { claims: self, turn, recorded, bytes, limit })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TurnId, Claimed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// Takes the call's files in its claim's place: they count until the turn ends.
    ///
    /// # Errors
    /// When they have become larger than what was claimed, and there is no room for that: how many bytes the turn's
    /// other files have.
    pub(super) fn keep(mut self, files: &[Attachment]) -> Result<(), u64> {
        let mut turns = self.claims.lock();
        let claimed = turns.entry(self.turn).or_default();
        claimed.running = claimed.running.saturating_sub(std::mem::take(&mut self.bytes));
        let files = sizes(files);
        let others = claimed.bytes_with(&self.recorded);
        if others.saturating_add(files.values().sum()) > self.limit {
            return Err(others);
        }
        claimed.added.extend(files);
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(claimed) = self.claims.lock().get_mut(&self.turn) {
            claimed.running = claimed.running.saturating_sub(self.bytes);
        }
    }
}

impl Claimed {
    /// The bytes of all files of the turn, each counted once.
    fn bytes_with(&self, recorded: &HashMap<AttachmentId, u64>) -> u64 {
        let unknown = recorded.iter().filter(|(id, _)| !self.added.contains_key(id)).map(|(_, bytes)| bytes);
        unknown.chain(self.added.values()).chain([&self.running]).fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

fn sizes(files: &[Attachment]) -> HashMap<AttachmentId, u64> {
    files.iter().map(|file| (file.id, file.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::fakes::attachment;

    fn file(id: u128, bytes: usize) -> Attachment {
        attachment(id, "a.bin", "application/octet-stream", &vec![0; bytes])
    }

    #[test]
    fn what_runs_counts_until_it_is_given_up() {
        let claims = Claims::default();
        let turn = TurnId(Uuid::from_u128(1));
        let first = claims.claim(turn, 6, &[], 10).expect("there is room");
        assert_eq!(claims.claim(turn, 6, &[], 10).err(), Some(6));
        assert!(claims.claim(TurnId(Uuid::from_u128(2)), 10, &[], 10).is_ok(), "another turn has its own room");
        drop(first);
        assert!(claims.claim(turn, 10, &[], 10).is_ok());
    }

    #[test]
    fn what_has_ended_counts_once_whether_it_is_recorded_or_not() {
        let claims = Claims::default();
        let turn = TurnId(Uuid::from_u128(1));
        claims.claim(turn, 6, &[], 10).expect("there is room").keep(&[file(5, 6)]).unwrap();
        for recorded in [&[][..], &[file(5, 6)]] {
            assert_eq!(claims.claim(turn, 5, recorded, 10).err(), Some(6));
            assert!(claims.claim(turn, 4, recorded, 10).is_ok());
        }
        assert_eq!(claims.claim(turn, 1, &[file(5, 6), file(6, 4)], 10).err(), Some(10), "of an earlier process");
    }

    #[test]
    fn what_grows_beyond_the_room_is_not_kept() {
        let claims = Claims::default();
        let turn = TurnId(Uuid::from_u128(1));
        let _other = claims.claim(turn, 4, &[], 10).expect("there is room");
        let growing = claims.claim(turn, 5, &[], 10).expect("there is room");
        assert_eq!(growing.keep(&[file(5, 7)]), Err(4));
        let growing = claims.claim(turn, 5, &[], 10).expect("nothing of it is left");
        assert_eq!(growing.keep(&[file(6, 6)]), Ok(()));
    }

    #[test]
    fn turns_that_ended_long_ago_are_forgotten() {
        let claims = Claims::default();
        for turn in 0..3 * TURNS as u128 {
            assert!(claims.claim(TurnId(Uuid::from_u128(turn)), 1, &[], 1).is_ok());
        }
        assert_eq!(claims.lock().len(), TURNS);
    }
}
