//! Where a message goes that comes in: into a queued turn, or into one of its own.

use satchel_domain::Timestamp;

/// A queued turn, as far as it matters to who may still change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedTurnState {
    pub ready_at: Timestamp,
    /// An earlier or running attempt has journalled something or has shown something.
    pub is_begun: bool,
    /// Whether it is the lane's oldest.
    pub is_oldest: bool,
    /// Whether somebody holds the lane.
    pub is_held: bool,
}

/// Returns whether an edit may take the place of a message of the turn: nobody has taken it up. A holder works on the
/// lane's oldest.
#[must_use]
pub fn can_be_replaced(turn: QueuedTurnState) -> bool {
    let is_worked_on = turn.is_held && turn.is_oldest;
    !turn.is_begun && !is_worked_on
}

/// Returns whether another item may join the turn of its album: nobody works on it, which is so until it is both ready and
/// the oldest of a lane that is held.
#[must_use]
pub fn can_join_album(turn: QueuedTurnState, now: Timestamp) -> bool {
    let is_worked_on = turn.is_held && turn.is_oldest && turn.ready_at <= now;
    !turn.is_begun && !is_worked_on
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(100);

    #[test]
    fn taken_up_turn_takes_nothing_more() {
        let waiting = QueuedTurnState { ready_at: Timestamp(101), is_begun: false, is_oldest: true, is_held: true };
        assert!(!can_be_replaced(waiting), "its holder may have read it");
        assert!(can_join_album(waiting, NOW), "it is not ready yet");
        assert!(!can_join_album(QueuedTurnState { ready_at: NOW, ..waiting }, NOW));
        for free in [QueuedTurnState { is_held: false, ..waiting }, QueuedTurnState { is_oldest: false, ..waiting }] {
            assert!(can_be_replaced(free) && can_join_album(QueuedTurnState { ready_at: NOW, ..free }, NOW));
            let begun = QueuedTurnState { is_begun: true, ..free };
            assert!(!can_be_replaced(begun) && !can_join_album(begun, NOW));
        }
    }
}
