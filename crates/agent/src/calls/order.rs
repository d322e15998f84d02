//! The order in which the calls of one message run: as if one after the other, but calls that only read side by side.

use std::sync::Arc;

use satchel_ports::SafetyTier;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::call_tracker::CallTracker;

/// What the order of a call depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallEffect {
    /// What it may do to the world.
    pub(super) tier: SafetyTier,
    /// Whether a person must allow it, and is asked before the call can run.
    pub(super) asks_early: bool,
}

/// When a call is made. All calls of a step run side by side, and a step starts once all calls before it have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallSlot {
    /// The step from which a person may be asked about it.
    pub(super) question_step: usize,
    /// The step in which it runs.
    pub(super) run_step: usize,
}

/// Plans the calls of one message, in the model's order.
///
/// A call that may change something has a step of its own. A question changes nothing, so it is opened before the call's
/// step; but not while an earlier call may change what it shows.
pub(super) fn plan_slots(calls: impl IntoIterator<Item = CallEffect>) -> Vec<CallSlot> {
    let (mut step, mut question_step, mut has_readers) = (0, 0, false);
    let plan_slot = |CallEffect { tier, asks_early }| {
        let may_change = tier != SafetyTier::ReadOnly;
        if may_change && has_readers {
            step += 1;
        }
        let slot = CallSlot { question_step: if asks_early { question_step } else { step }, run_step: step };
        has_readers = !may_change;
        if may_change {
            step += 1;
            // Calls that wait for a person can be decided together.
            question_step = if asks_early { question_step } else { step };
        }
        slot
    };
    calls.into_iter().map(plan_slot).collect()
}

/// The steps of one message, of which each starts when all calls of those before it have ended.
pub(super) struct CallSteps {
    /// Set when the step starts.
    started: Vec<Arc<SetOnce<()>>>,
    calls_left: Vec<usize>,
}

impl CallSteps {
    /// Starts the first step.
    pub(super) fn new(slots: &[CallSlot]) -> Self {
        let mut calls_left = vec![0; slots.last().map_or(0, |slot| slot.run_step + 1)];
        slots.iter().for_each(|slot| calls_left[slot.run_step] += 1);
        let steps = Self { started: calls_left.iter().map(|_| Arc::new(SetOnce::new())).collect(), calls_left };
        steps.start_ready_steps();
        steps
    }

    /// The gate of a call, which doesn't count as running while it waits there. It stays closed once `process_stop` is
    /// cancelled.
    pub(super) fn gate(&self, slot: CallSlot, tracker: &CallTracker, process_stop: CancellationToken) -> CallGate {
        let step = |index: usize| Arc::clone(&self.started[index]);
        let (question_step, run_step) = (step(slot.question_step), step(slot.run_step));
        CallGate { question_step, run_step, tracker: tracker.clone(), process_stop }
    }

    /// Records that a call of this step has ended.
    pub(super) fn finish_call(&mut self, run_step: usize) {
        self.calls_left[run_step] -= 1;
        self.start_ready_steps();
    }

    fn start_ready_steps(&self) {
        let ended = self.calls_left.iter().take_while(|left| **left == 0).count();
        for step in self.started.iter().take(ended + 1) {
            let _started_before = step.set(());
        }
    }
}

/// Holds a call back until its step starts.
pub(super) struct CallGate {
    question_step: Arc<SetOnce<()>>,
    run_step: Arc<SetOnce<()>>,
    tracker: CallTracker,
    /// Cancelled when the next process is to make the call.
    process_stop: CancellationToken,
}

impl CallGate {
    /// Waits until a person may be asked about the call. Returns `false` if the turn is stopped before.
    pub(super) async fn wait_for_question_step(&self, stop: &CancellationToken) -> bool {
        self.wait_for_start(&self.question_step, stop).await
    }

    /// Waits until the call may run. Returns `false` if the turn is stopped before.
    pub(super) async fn wait_for_run_step(&self, stop: &CancellationToken) -> bool {
        self.wait_for_start(&self.run_step, stop).await
    }

    async fn wait_for_start(&self, step: &SetOnce<()>, stop: &CancellationToken) -> bool {
        let _pause = self.tracker.pause();
        let opened = async {
            step.wait().await;
            if self.process_stop.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        // A stop may arrive together with the end of the call before.
        stop.run_until_cancelled(opened).await.is_some() && !stop.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Plans calls by letters: `r` reads, `w` changes, `R` and `W` ask a person first. Returns the steps in which they run,
    /// and from which a person is asked.
    fn plan(calls: &str) -> (Vec<usize>, Vec<usize>) {
        let effect = |letter: char| CallEffect {
            tier: if letter.eq_ignore_ascii_case(&'r') { SafetyTier::ReadOnly } else { SafetyTier::SideEffecting },
            asks_early: letter.is_ascii_uppercase(),
        };
        let slots = plan_slots(calls.chars().map(effect));
        slots.iter().map(|slot| (slot.run_step, slot.question_step)).unzip()
    }

    #[test]
    fn calls_that_change_have_their_own_steps() {
        for (calls, steps) in [
            ("", vec![]),
            ("rrr", vec![0, 0, 0]),
            ("www", vec![0, 1, 2]),
            ("wr", vec![0, 1]),
            ("rw", vec![0, 1]),
            ("rrwrrww", vec![0, 0, 1, 2, 2, 3, 4]),
        ] {
            assert_eq!(plan(calls), (steps.clone(), steps), "{calls}");
        }
    }

    #[test]
    fn questions_wait_only_for_calls_that_run_without_one() {
        for (calls, run_steps, question_steps) in [
            ("WWW", vec![0, 1, 2], vec![0, 0, 0]),
            ("rW", vec![0, 1], vec![0, 0]),
            ("wW", vec![0, 1], vec![0, 1]),
            ("WwW", vec![0, 1, 2], vec![0, 1, 2]),
            ("wrRW", vec![0, 1, 1, 2], vec![0, 1, 1, 1]),
        ] {
            assert_eq!(plan(calls), (run_steps, question_steps), "{calls}");
        }
    }

    #[test]
    fn step_starts_when_all_calls_before_it_have_ended() {
        let slots = plan_slots(["r", "r", "w", "r"].map(|kind| CallEffect {
            tier: if kind == "r" { SafetyTier::ReadOnly } else { SafetyTier::Privileged },
            asks_early: false,
        }));
        let mut steps = CallSteps::new(&slots);
        let (stop, tracker) = (CancellationToken::new(), CallTracker::default());
        let _calls: Vec<_> = slots.iter().map(|_| tracker.track()).collect();
        let process_stop = CancellationToken::new();
        let gates: Vec<CallGate> = slots.iter().map(|slot| steps.gate(*slot, &tracker, process_stop.clone())).collect();
        let may_run = || gates.iter().map(|gate| gate.wait_for_run_step(&stop).now_or_never()).collect::<Vec<_>>();
        assert_eq!(may_run(), [Some(true), Some(true), None, None]);
        steps.finish_call(0);
        assert_eq!(may_run(), [Some(true), Some(true), None, None], "one of two readers still runs");
        steps.finish_call(0);
        assert_eq!(may_run(), [Some(true), Some(true), Some(true), None]);
        steps.finish_call(1);
        assert_eq!(may_run(), [Some(true); 4]);
        process_stop.cancel();
        assert_eq!(may_run(), [None; 4], "the next process makes these calls");
        stop.cancel();
        assert_eq!(may_run(), [Some(false); 4], "nothing starts in a turn that is stopped");
    }
}
