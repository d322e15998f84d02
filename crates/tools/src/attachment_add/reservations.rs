//! Reservations of a turn's byte quota by running calls, before the ledger records their files.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{Attachment, AttachmentId, CallId, OutcomeFile, TurnId};

/// How many turns are remembered: many more than run at once, so that one which is forgotten has long ended.
const MAX_TRACKED_TURNS: usize = 1_000;

/// The reservations of running turns. A model requests several calls at once, and none is recorded before it has ended:
/// by the ledger alone, each would find the same room free.
#[derive(Default)]
pub(super) struct Reservations(Mutex<BTreeMap<TurnId, TurnUsage>>);

#[derive(Default)]
struct TurnUsage {
    /// The bytes of the calls that run.
    reserved_bytes: u64,
    /// The files of each call that has ended, which the ledger may know by now or not.
    files_by_call: HashMap<CallId, HashMap<AttachmentId, u64>>,
}

/// A call's reservation; released when dropped, unless its files were added.
pub(super) struct Reservation<'c> {
    reservations: &'c Reservations,
    call: CallId,
    /// The turn's files as the ledger knew them.
    recorded: HashMap<AttachmentId, u64>,
    bytes: u64,
    limit: u64,
}

impl Reservations {
    /// Reserves bytes for a call. Files that it added before, in a resumed turn, are replaced.
    ///
    /// # Errors
    /// When the turn's other files leave no room for them: how many bytes these have.
    pub(super) fn reserve(
        &self,
        call: CallId,
        bytes: u64,
        recorded: &[Attachment],
        limit: u64,
    ) -> Result<Reservation<'_>, u64> {
        let recorded = recorded.iter().map(|file| (file.id, file.bytes)).collect();
        let mut turns = self.lock();
        while turns.len() >= MAX_TRACKED_TURNS && !turns.contains_key(&call.turn) {
            turns.pop_first();
        }
        let usage = turns.entry(call.turn).or_default();
        usage.files_by_call.remove(&call);
        let other_bytes = usage.total_bytes(&recorded);
        if other_bytes.saturating_add(bytes) > limit {
            return Err(other_bytes);
        }
        usage.reserved_bytes += bytes;
        Ok(Reservation { reservations: self, call, recorded, bytes, limit })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TurnId, TurnUsage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Replaces the reservation by the call's files, which count until the turn ends.
    ///
    /// # Errors
    /// When they have become larger than what was claimed, and there is no room for that: how many bytes the turn's
    /// other files have.
    pub(super) fn commit(mut self, files: &[OutcomeFile]) -> Result<(), u64> {
        let mut turns = self.reservations.lock();
        let usage = turns.entry(self.call.turn).or_default();
        usage.reserved_bytes = usage.reserved_bytes.saturating_sub(std::mem::take(&mut self.bytes));
        let file_sizes: HashMap<_, _> = files.iter().map(|file| (file.id(), file.bytes())).collect();
        let other_bytes = usage.total_bytes(&self.recorded);
        if other_bytes.saturating_add(file_sizes.values().sum()) > self.limit {
            return Err(other_bytes);
        }
        usage.files_by_call.insert(self.call, file_sizes);
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(usage) = self.reservations.lock().get_mut(&self.call.turn) {
            usage.reserved_bytes = usage.reserved_bytes.saturating_sub(self.bytes);
        }
    }
}

impl TurnUsage {
    /// The bytes of all files of the turn, each counted once.
    fn total_bytes(&self, recorded: &HashMap<AttachmentId, u64>) -> u64 {
        let added = || self.files_by_call.values().flatten();
        let is_only_recorded = |id: &AttachmentId| added().all(|(added, _)| added != id);
        let only_recorded = recorded.iter().filter(|(id, _)| is_only_recorded(id));
        only_recorded
            .chain(added())
            .map(|(_, bytes)| bytes)
            .chain([&self.reserved_bytes])
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::fakes::attachment;

    fn file(id: u128, bytes: usize) -> Attachment {
        attachment(id, "a.bin", "application/octet-stream", &vec![0; bytes])
    }

    fn call(ordinal: u32) -> CallId {
        CallId { ordinal, ..of_turn(1) }
    }

    fn of_turn(turn: u128) -> CallId {
        CallId { turn: TurnId(Uuid::from_u128(turn)), ordinal: 0 }
    }

    #[test]
    fn what_runs_counts_until_it_is_given_up() {
        let claims = Reservations::default();
        let first = claims.reserve(call(0), 6, &[], 10).expect("there is room");
        assert_eq!(claims.reserve(call(1), 6, &[], 10).err(), Some(6));
        assert!(claims.reserve(of_turn(2), 10, &[], 10).is_ok(), "another turn has its own room");
        drop(first);
        assert!(claims.reserve(call(1), 10, &[], 10).is_ok());
    }

    #[test]
    fn finished_reservation_counts_once_recorded_or_not() {
        let claims = Reservations::default();
        claims.reserve(call(0), 6, &[], 10).expect("there is room").commit(&[file(5, 6).into()]).unwrap();
        for recorded in [&[][..], &[file(5, 6)]] {
            assert_eq!(claims.reserve(call(1), 5, recorded, 10).err(), Some(6));
            assert!(claims.reserve(call(1), 4, recorded, 10).is_ok());
        }
        assert_eq!(claims.reserve(call(1), 1, &[file(5, 6), file(6, 4)], 10).err(), Some(10), "of an earlier process");
    }

    #[test]
    fn a_call_that_runs_again_counts_once() {
        let claims = Reservations::default();
        claims.reserve(call(0), 6, &[], 10).expect("there is room").commit(&[file(5, 6).into()]).unwrap();
        let again = claims.reserve(call(0), 6, &[], 10).expect("what it had added it makes anew");
        again.commit(&[file(6, 6).into()]).unwrap();
        assert_eq!(claims.reserve(call(1), 5, &[], 10).err(), Some(6));
    }

    #[test]
    fn what_grows_beyond_the_room_is_not_kept() {
        let claims = Reservations::default();
        let _other = claims.reserve(call(0), 4, &[], 10).expect("there is room");
        let growing = claims.reserve(call(1), 5, &[], 10).expect("there is room");
        assert_eq!(growing.commit(&[file(5, 7).into()]), Err(4));
        let growing = claims.reserve(call(1), 5, &[], 10).expect("nothing of it is left");
        assert_eq!(growing.commit(&[file(6, 6).into()]), Ok(()));
    }

    #[test]
    fn turns_that_ended_long_ago_are_forgotten() {
        let claims = Reservations::default();
        for turn in 0..3 * MAX_TRACKED_TURNS as u128 {
            assert!(claims.reserve(of_turn(turn), 1, &[], 1).is_ok());
        }
        assert_eq!(claims.lock().len(), MAX_TRACKED_TURNS);
    }
}
