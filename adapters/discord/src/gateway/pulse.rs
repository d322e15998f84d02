//! The heartbeat: when the next one is due, and when its silence means that the other side is gone.

use std::time::Duration;

use tokio::time::Instant;

/// How many intervals may be read through in a row without an answer, whatever else comes.
const UNANSWERED: u32 = 3;

#[derive(Debug)]
pub(super) struct Pulse {
    interval: Duration,
    due: Instant,
    /// How many were not heard yet.
    unheard: u32,
    /// Whether nothing could be read at the last one.
    was_deaf: bool,
    /// Whether answers may still wait unread behind what came while nothing was read.
    is_behind: bool,
    /// Whether anything has come since the last one.
    came: bool,
    /// How many intervals were read through since the last answer, and brought none.
    unanswered: u32,
}

impl Pulse {
    /// A heartbeat that begins after a part of the interval, so that not all who connect at once beat at once.
    pub(super) fn new(now: Instant, interval: Duration, part: f64) -> Self {
        Self {
            interval,
            due: now + interval.mul_f64(part.clamp(0.0, 1.0)),
            unheard: 0,
            was_deaf: false,
            is_behind: false,
            came: false,
            unanswered: 0,
        }
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// One is due. Tells whether it is to be sent; if not, the one before was never heard and the connection is dead.
    /// `reading` is whether what comes is being read at the moment: an answer that can't be seen isn't missed.
    pub(super) fn beat(&mut self, now: Instant, reading: bool) -> bool {
        if self.unheard > 0 && reading && !self.was_deaf {
            self.unanswered += 1;
            let may_be_unread = self.is_behind && self.came && self.unanswered < UNANSWERED;
            if !may_be_unread {
                return false;
            }
        }
        self.due = now + self.interval;
        self.unheard += 1;
        self.was_deaf = !reading;
        self.is_behind |= !reading;
        self.came = false;
        true
    }

    pub(super) fn came(&mut self) {
        self.came = true;
    }

    /// Discord has heard one.
    pub(super) fn heard(&mut self) {
        self.unheard = self.unheard.saturating_sub(1);
        self.is_behind &= self.unheard > 0;
        self.unanswered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(40);

    #[test]
    fn the_first_one_comes_somewhere_within_the_interval() {
        let now = Instant::now();
        for (part, after) in [(0.0, 0), (0.5, 20), (1.0, 40), (7.0, 40), (-1.0, 0)] {
            assert_eq!(Pulse::new(now, INTERVAL, part).due(), now + Duration::from_secs(after), "{part}");
        }
    }

    #[test]
    fn acked_heartbeat_is_followed_by_next() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start, INTERVAL, 1.0);
        for beat in 1..5 {
            assert_eq!(pulse.due(), start + INTERVAL * beat);
            assert!(pulse.beat(pulse.due(), true));
            pulse.heard();
        }
    }

    #[test]
    fn unacked_heartbeat_means_dead_connection() {
        let mut pulse = Pulse::new(Instant::now(), INTERVAL, 0.0);
        assert!(pulse.beat(pulse.due(), true));
        assert!(!pulse.beat(pulse.due(), true));
    }

    #[test]
    fn reading_pause_misses_no_ack_and_grants_time() {
        let mut pulse = Pulse::new(Instant::now(), INTERVAL, 0.0);
        assert!(pulse.beat(pulse.due(), true));
        assert!(pulse.beat(pulse.due(), false), "the answer may wait unread");
        assert!(pulse.beat(pulse.due(), false));
        assert!(pulse.beat(pulse.due(), true), "it may be read only now");
        assert!(!pulse.beat(pulse.due(), true), "a whole interval of reading brought none");
    }

    #[test]
    fn backlog_extends_ack_time_while_frames_arrive() {
        let mut pulse = Pulse::new(Instant::now(), INTERVAL, 0.0);
        for reading in [true, false, false, true] {
            assert!(pulse.beat(pulse.due(), reading));
        }
        for answers in [0, 1, 0] {
            pulse.came();
            (0..answers).for_each(|_| pulse.heard());
            assert!(pulse.beat(pulse.due(), true), "the answers stand behind what has piled up");
        }
        (0..7).for_each(|_| pulse.heard());
        assert!(pulse.beat(pulse.due(), true));
        pulse.came();
        assert!(!pulse.beat(pulse.due(), true), "nothing is behind any more");
    }

    #[test]
    fn missing_acks_end_connection_despite_other_frames() {
        let mut pulse = Pulse::new(Instant::now(), INTERVAL, 0.0);
        let mut beats = 0;
        // Now and then nothing can be read, which hides that there is no answer.
        for reading in [true, false, true, true, false, true, true, true, true] {
            if !pulse.beat(pulse.due(), reading) {
                break;
            }
            beats += 1;
            pulse.came();
        }
        assert_eq!(beats, 7, "three intervals were read through by then");
    }
}
