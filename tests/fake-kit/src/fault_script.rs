//! The script of a fake server: which requests go wrong, and which phases of them somebody waits for.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use crate::{Fault, FaultTiming, RequestPhase, ServerFault, TestClock};

/// The script of a server; `R` is what it answers when it refuses.
pub struct FaultScript<R> {
    clock: TestClock,
    rules: Vec<FaultRule<R>>,
    arrived: HashMap<String, u64>,
    ended: HashMap<String, u64>,
    waiters: Vec<PhaseWaiter>,
    last: u64,
}

struct FaultRule<R> {
    methods: MethodPattern,
    window: FaultWindow,
    fault: ServerFault<R>,
    /// The last request before which the gate was closed; it is closed once for each.
    closed_before: u64,
}

/// Which requests a line of a script meets, and since when it has met any.
struct FaultWindow {
    timing: FaultTiming,
    start: Option<Instant>,
}

struct PhaseWaiter {
    methods: MethodPattern,
    number: u64,
    phase: RequestPhase,
    sender: oneshot::Sender<()>,
    /// The request that it turned out to be.
    request: Option<u64>,
}

/// Methods or routes as a test names them: one, all that begin alike (`send*`), or all (`*`), in any case.
struct MethodPattern(String);

/// A request that has arrived.
pub struct ScriptedRequest<R> {
    pub method: String,
    pub fault: Option<ServerFault<R>>,
    /// When it arrived, by the clock of the script.
    pub at: Instant,
    /// Its place among all requests.
    number: u64,
}

impl<R> ScriptedRequest<R> {
    /// What goes wrong with it, if that can go wrong on every platform.
    pub fn common_fault(&self) -> Option<Fault> {
        self.fault.as_ref().and_then(ServerFault::common)
    }
}

impl FaultWindow {
    fn new(timing: FaultTiming) -> Self {
        Self { timing, start: None }
    }

    /// Whether a request with this number would be met at this time.
    fn meets(&self, number: u64, now: Instant) -> bool {
        let over = match (self.timing, self.start) {
            (FaultTiming::ForMs(ms), Some(start)) => now.saturating_duration_since(start) >= Duration::from_millis(ms),
            _ => false,
        };
        !over && self.timing.meets(number)
    }

    /// Notes that a request is met.
    fn begin(&mut self, now: Instant) {
        self.start.get_or_insert(now);
    }
}

impl MethodPattern {
    fn new(pattern: &str) -> Self {
        Self(pattern.to_lowercase())
    }

    fn matches(&self, method: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => method.starts_with(beginning),
            None => method == self.0,
        }
    }

    fn count(&self, counts: &HashMap<String, u64>) -> u64 {
        counts.iter().filter(|(method, _)| self.matches(method)).map(|(_, count)| count).sum()
    }
}

impl<R: Clone> FaultScript<R> {
    /// An empty script, whose times are those of this clock.
    pub fn new(clock: TestClock) -> Self {
        let (rules, waiters) = (Vec::new(), Vec::new());
        Self { clock, rules, arrived: HashMap::new(), ended: HashMap::new(), waiters, last: 0 }
    }

    pub fn add(&mut self, methods: &str, timing: FaultTiming, fault: ServerFault<R>) {
        self.rules.push(FaultRule {
            methods: MethodPattern::new(methods),
            window: FaultWindow::new(timing),
            fault,
            closed_before: 0,
        });
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub fn requests(&self, methods: &str) -> u64 {
        MethodPattern::new(methods).count(&self.arrived)
    }

    pub fn wait_for(&mut self, methods: &str, number: u64, phase: RequestPhase) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiters.push(PhaseWaiter { methods: MethodPattern::new(methods), number, phase, sender, request: None });
        receiver
    }

    /// Counts a request, named in lower case, and says what is to go wrong with it.
    pub fn on_request(&mut self, method: &str) -> ScriptedRequest<R> {
        *self.arrived.entry(method.to_owned()).or_default() += 1;
        self.last += 1;
        let now = self.clock.now();
        let Self { rules, arrived, waiters, last, .. } = self;
        let is_met = |rule: &&mut FaultRule<R>| {
            rule.methods.matches(method)
                && rule.window.meets(rule.methods.count(arrived), now)
                && !matches!(rule.fault, ServerFault::Common(Fault::RefuseConnection { .. }))
        };
        let fault = rules.iter_mut().find(is_met).map(|rule| {
            rule.window.begin(now);
            rule.fault.clone()
        });
        for waiter in waiters {
            if waiter.methods.matches(method) && waiter.methods.count(arrived) == waiter.number {
                waiter.request = Some(*last);
            }
        }
        let request = ScriptedRequest { method: method.to_owned(), fault, at: now, number: self.last };
        self.notify(&request, RequestPhase::Arrived);
        request
    }

    pub fn on_performed(&mut self, request: &ScriptedRequest<R>) {
        self.notify(request, RequestPhase::Performed);
    }

    /// Notes that a request has been answered or cut off.
    pub fn on_end(&mut self, request: &ScriptedRequest<R>) {
        *self.ended.entry(request.method.clone()).or_default() += 1;
    }

    /// How long the gate is to be closed now, in milliseconds, because the next request is to find it so.
    pub fn next_closure(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let Self { rules, arrived, ended, .. } = self;
        let mut longest = None;
        for rule in rules {
            let ServerFault::Common(Fault::RefuseConnection { for_ms }) = rule.fault else { continue };
            let so_far = rule.methods.count(arrived);
            if rule.methods.count(ended) < so_far {
                // The request before it is still in hand, and would be cut off.
                continue;
            }
            if rule.closed_before <= so_far && rule.window.meets(so_far + 1, now) {
                rule.window.begin(now);
                rule.closed_before = so_far + 1;
                longest = longest.max(Some(for_ms));
            }
        }
        longest
    }

    fn notify(&mut self, request: &ScriptedRequest<R>, phase: RequestPhase) {
        let is_reached = |waiter: &mut PhaseWaiter| waiter.request == Some(request.number) && waiter.phase == phase;
        for waiter in self.waiters.extract_if(.., is_reached) {
            // Who waited may have given up.
            let _gone = waiter.sender.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets so many requests arrive and end, and tells which of them met a fault.
    fn met(script: &mut FaultScript<()>, count: usize) -> Vec<bool> {
        let mut met = Vec::new();
        for _ in 0..count {
            let request = script.on_request("send");
            script.on_end(&request);
            met.push(request.fault.is_some());
        }
        met
    }

    #[test]
    fn script_meets_the_requests_it_names() {
        for (when, expected) in [
            (FaultTiming::Nth(2), [false, true, false, false]),
            (FaultTiming::First(2), [true, true, false, false]),
            (FaultTiming::From(3), [false, false, true, true]),
            (FaultTiming::Every, [true; 4]),
            (FaultTiming::ForMs(600_000), [true; 4]),
        ] {
            let mut script = FaultScript::new(TestClock::default());
            script.add("Send", when, Fault::ServerError.into());
            assert!(script.on_request("edit").fault.is_none(), "{when:?}: it is another method");
            assert_eq!(met(&mut script, 4), expected, "{when:?}");
            script.clear();
            assert_eq!(met(&mut script, 1), [false], "{when:?}");
        }
    }

    #[test]
    fn outage_starts_with_its_first_request() {
        let clock = TestClock::default();
        clock.pause();
        let mut script = FaultScript::new(clock.clone());
        script.add("send", FaultTiming::ForMs(100), Fault::ResetAfterRead.into());
        clock.advance(Duration::from_secs(60));
        assert_eq!(met(&mut script, 2), [true, true], "it does not start with the script");
        clock.advance(Duration::from_millis(100));
        assert_eq!(met(&mut script, 1), [false], "its time is over");
    }

    #[test]
    fn refused_connection_is_no_request() {
        let mut script = FaultScript::<()>::new(TestClock::default());
        script.add("send", FaultTiming::Nth(2), Fault::RefuseConnection { for_ms: 100 }.into());
        assert_eq!(script.next_closure(), None, "the first request finds it open");
        let first = script.on_request("send");
        assert_eq!(script.next_closure(), None, "the first request would be cut off");
        script.on_end(&first);
        assert_eq!((script.next_closure(), script.next_closure()), (Some(100), None), "once");
        assert_eq!(met(&mut script, 1), [false], "it is open again");
        assert_eq!(script.requests("send"), 2);
    }
}
