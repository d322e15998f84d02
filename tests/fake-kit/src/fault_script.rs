//! The script of a fake server: which requests go wrong, and which moments somebody waits for.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use crate::{Fault, Moment, ServerFault, TestClock, When};

/// The script of a server; `R` is what it answers when it refuses.
pub struct FaultScript<R> {
    clock: TestClock,
    rules: Vec<FaultRule<R>>,
    arrived: HashMap<String, u64>,
    ended: HashMap<String, u64>,
    waiting: Vec<PhaseWaiter>,
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
    when: When,
    began: Option<Instant>,
}

struct PhaseWaiter {
    methods: MethodPattern,
    number: u64,
    moment: Moment,
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
    fn new(when: When) -> Self {
        Self { when, began: None }
    }

    /// Whether a request with this number would be met at this time.
    fn meets(&self, number: u64, now: Instant) -> bool {
        let over = match (self.when, self.began) {
            (When::ForMs(ms), Some(began)) => now.saturating_duration_since(began) >= Duration::from_millis(ms),
            _ => false,
        };
        !over && self.when.meets(number)
    }

    /// Notes that a request is met.
    fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }
}

impl MethodPattern {
    fn named(pattern: &str) -> Self {
        Self(pattern.to_lowercase())
    }

    fn have(&self, method: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => method.starts_with(beginning),
            None => method == self.0,
        }
    }

    fn count(&self, counts: &HashMap<String, u64>) -> u64 {
        counts.iter().filter(|(method, _)| self.have(method)).map(|(_, count)| count).sum()
    }
}

impl<R: Clone> FaultScript<R> {
    /// An empty script, whose times are those of this clock.
    pub fn new(clock: TestClock) -> Self {
        let (rules, waiting) = (Vec::new(), Vec::new());
        Self { clock, rules, arrived: HashMap::new(), ended: HashMap::new(), waiting, last: 0 }
    }

    pub fn add(&mut self, methods: &str, when: When, fault: ServerFault<R>) {
        self.rules.push(FaultRule {
            methods: MethodPattern::named(methods),
            window: FaultWindow::new(when),
            fault,
            closed_before: 0,
        });
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub fn requests(&self, methods: &str) -> u64 {
        MethodPattern::named(methods).count(&self.arrived)
    }

    pub fn wait(&mut self, methods: &str, number: u64, moment: Moment) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.push(PhaseWaiter {
            methods: MethodPattern::named(methods),
            number,
            moment,
            sender,
            request: None,
        });
        receiver
    }

    /// Counts a request, named in lower case, and says what is to go wrong with it.
    pub fn on_request(&mut self, method: &str) -> ScriptedRequest<R> {
        *self.arrived.entry(method.to_owned()).or_default() += 1;
        self.last += 1;
        let now = self.clock.now();
        let Self { rules, arrived, waiting, last, .. } = self;
        let meant = |rule: &&mut FaultRule<R>| {
            rule.methods.have(method)
                && rule.window.meets(rule.methods.count(arrived), now)
                && !matches!(rule.fault, ServerFault::Common(Fault::RefuseConnection { .. }))
        };
        let fault = rules.iter_mut().find(meant).map(|rule| {
            rule.window.begin(now);
            rule.fault.clone()
        });
        for waiting in waiting {
            if waiting.methods.have(method) && waiting.methods.count(arrived) == waiting.number {
                waiting.request = Some(*last);
            }
        }
        let request = ScriptedRequest { method: method.to_owned(), fault, at: now, number: self.last };
        self.notify(&request, Moment::Arrived);
        request
    }

    pub fn performed(&mut self, request: &ScriptedRequest<R>) {
        self.notify(request, Moment::Performed);
    }

    /// Notes that a request has been answered or cut off.
    pub fn ended(&mut self, request: &ScriptedRequest<R>) {
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

    fn notify(&mut self, request: &ScriptedRequest<R>, moment: Moment) {
        let meant = |waiting: &mut PhaseWaiter| waiting.request == Some(request.number) && waiting.moment == moment;
        for waiting in self.waiting.extract_if(.., meant) {
            // Who waited may have given up.
            let _gone = waiting.sender.send(());
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
            script.ended(&request);
            met.push(request.fault.is_some());
        }
        met
    }

    #[test]
    fn script_meets_the_requests_it_names() {
        for (when, expected) in [
            (When::Nth(2), [false, true, false, false]),
            (When::First(2), [true, true, false, false]),
            (When::From(3), [false, false, true, true]),
            (When::Every, [true; 4]),
            (When::ForMs(600_000), [true; 4]),
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
        script.add("send", When::ForMs(100), Fault::ResetAfterRead.into());
        clock.advance(Duration::from_secs(60));
        assert_eq!(met(&mut script, 2), [true, true], "it does not start with the script");
        clock.advance(Duration::from_millis(100));
        assert_eq!(met(&mut script, 1), [false], "its time is over");
    }

    #[test]
    fn refused_connection_is_no_request() {
        let mut script = FaultScript::<()>::new(TestClock::default());
        script.add("send", When::Nth(2), Fault::RefuseConnection { for_ms: 100 }.into());
        assert_eq!(script.next_closure(), None, "the first request finds it open");
        let first = script.on_request("send");
        assert_eq!(script.next_closure(), None, "the first request would be cut off");
        script.ended(&first);
        assert_eq!((script.next_closure(), script.next_closure()), (Some(100), None), "once");
        assert_eq!(met(&mut script, 1), [false], "it is open again");
        assert_eq!(script.requests("send"), 2);
    }
}
