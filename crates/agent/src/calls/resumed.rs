//! Calls that a dead process has left behind without an outcome: which of them may have started, and what they may have
//! changed.

use satchel_domain::ToolCall;
use satchel_ports::{FileAction, FileChange};

use super::{CallAction, CallScope, call_tier, decide_action, has_valid_arguments};
use crate::rounds::Rounds;

/// Whether this process requested a call itself or found it in the journal of one that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrigin {
    /// The model has just requested it.
    Fresh,
    /// A process that died has left it without an outcome.
    Resumed {
        /// The recorded state of the decision that it waited for; `None` where it needed none.
        decision: Option<RecordedDecision>,
        /// Whether that process may have started it.
        may_have_started: bool,
    },
}

impl CallOrigin {
    /// Returns whether another process may have started the call.
    pub(super) fn may_have_started(self) -> bool {
        matches!(self, Self::Resumed { may_have_started: true, .. })
    }
}

/// A person's decision about a call, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedDecision {
    /// Nobody has decided, and the call has not started.
    Pending,
    /// The call may start.
    Allowed,
    /// The call never starts.
    Refused,
}

/// Returns the calls without an outcome, which are all of one message. The journal alone decides which of them may have started:
/// since it was written, an update may have changed what their tools do.
pub(crate) fn resumed_calls(rounds: &Rounds) -> Vec<(ToolCall, CallOrigin)> {
    let add_origin = |call: ToolCall| {
        let ordinal = call.id.ordinal;
        let decision = rounds.recorded_decision(ordinal);
        let is_undecided = matches!(decision, Some(RecordedDecision::Pending | RecordedDecision::Refused));
        let may_have_started = has_valid_arguments(&call) && !is_undecided && rounds.may_have_started(ordinal);
        (call, CallOrigin::Resumed { decision, may_have_started })
    };
    rounds.pending_calls().into_iter().map(add_origin).collect()
}

/// Records in `rounds` what is known of calls that this process doesn't make: what those that may have started may have
/// changed, and that the others never started.
pub(crate) fn abandon_calls(scope: &CallScope, calls: &[(ToolCall, CallOrigin)], rounds: &mut Rounds) {
    for (call, origin) in calls {
        if origin.may_have_started() {
            rounds.unrecorded_changes.extend(possible_changes(scope, call, *origin));
        } else {
            rounds.unstarted.insert(call.id.ordinal);
        }
    }
}

/// What a call may have changed that another process started, whether or not its tool is still permitted.
pub(super) fn possible_changes(scope: &CallScope, call: &ToolCall, origin: CallOrigin) -> Vec<FileChange> {
    if decide_action(call, call_tier(scope, call), false, origin) != CallAction::OutcomeUnknown {
        return Vec::new();
    }
    let tool = scope.agent.tools.find(&call.name).map(|(_, tool)| tool);
    let paths = tool.map_or(vec![None], |tool| tool.changed_paths(&call.arguments)).into_iter();
    paths.map(|path| FileChange::started(scope.requester.clone(), &call.name, FileAction::Change, path)).collect()
}
