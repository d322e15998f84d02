//! The script of a fake server: which requests go wrong, and which moments somebody waits for.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use crate::{Fault, Moment, ServerFault, When};

/// `R` is what the server answers when it refuses.
pub(crate) struct Script<R> {
    rules: Vec<Rule<R>>,
    arrived: HashMap<String, u64>,
    ended: HashMap<String, u64>,
    waiting: Vec<Waiting>,
    last: u64,
}

struct Rule<R> {
    methods: Methods,
    window: ScriptWindow,
    fault: ServerFault<R>,
    /// The last request before which the door was shut; it is shut once for each.
    shut_before: u64,
}

/// Which requests a line of a script meets, and since when it has met any.
struct ScriptWindow {
    when: When,
    began: Option<Instant>,
}

struct Waiting {
    methods: Methods,
    number: u64,
    moment: Moment,
    sender: oneshot::Sender<()>,
    /// The request that it turned out to be.
    request: Option<u64>,
}

/// Methods or routes as a test names them: one, all that begin alike (`send*`), or all (`*`), in any case.
struct Methods(String);

/// A request that has arrived.
pub(crate) struct Arrival<R> {
    pub(crate) method: String,
    pub(crate) fault: Option<ServerFault<R>>,
    request: u64,
}

impl<R> Arrival<R> {
    /// What goes wrong with it, if that can go wrong on every platform.
    pub(crate) fn common_fault(&self) -> Option<Fault> {
        self.fault.as_ref().and_then(ServerFault::common)
    }
}

impl ScriptWindow {
    fn new(when: When) -> Self {
        Self { when, began: None }
    }

    /// Whether a request with this number would be met now.
    fn meets(&self, number: u64) -> bool {
        let over = match (self.when, self.began) {
            (When::ForMs(ms), Some(began)) => began.elapsed() >= Duration::from_millis(ms),
            _ => false,
        };
        !over && self.when.meets(number)
    }

    /// Notes that a request is met.
    fn begin(&mut self) {
        self.began.get_or_insert_with(Instant::now);
    }
}

impl Methods {
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

impl<R> Default for Script<R> {
    fn default() -> Self {
        let (rules, waiting) = (Vec::new(), Vec::new());
        Self { rules, arrived: HashMap::new(), ended: HashMap::new(), waiting, last: 0 }
    }
}

impl<R: Clone> Script<R> {
    pub(crate) fn add(&mut self, methods: &str, when: When, fault: ServerFault<R>) {
        self.rules.push(Rule {
            methods: Methods::named(methods),
            window: ScriptWindow::new(when),
            fault,
            shut_before: 0,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn requests(&self, methods: &str) -> u64 {
        Methods::named(methods).count(&self.arrived)
    }

    pub(crate) fn wait(&mut self, methods: &str, number: u64, moment: Moment) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.push(Waiting { methods: Methods::named(methods), number, moment, sender, request: None });
        receiver
    }

    /// Counts a request, named in lower case, and says what is to go wrong with it.
    pub(crate) fn arrive(&mut self, method: &str) -> Arrival<R> {
        *self.arrived.entry(method.to_owned()).or_default() += 1;
        self.last += 1;
        let Self { rules, arrived, waiting, last, .. } = self;
        let meant = |rule: &&mut Rule<R>| {
            rule.methods.have(method)
                && rule.window.meets(rule.methods.count(arrived))
                && !matches!(rule.fault, ServerFault::Common(Fault::RefuseConnection { .. }))
        };
        let fault = rules.iter_mut().find(meant).map(|rule| {
            rule.window.begin();
            rule.fault.clone()
        });
        for waiting in waiting {
            if waiting.methods.have(method) && waiting.methods.count(arrived) == waiting.number {
                waiting.request = Some(*last);
            }
        }
        let arrival = Arrival { method: method.to_owned(), fault, request: self.last };
        self.tell(&arrival, Moment::Arrived);
        arrival
    }

    pub(crate) fn performed(&mut self, arrival: &Arrival<R>) {
        self.tell(arrival, Moment::Performed);
    }

    /// Notes that a request has been answered or cut off.
    pub(crate) fn ended(&mut self, arrival: &Arrival<R>) {
        *self.ended.entry(arrival.method.clone()).or_default() += 1;
    }

    /// How long the door is to be shut now, in milliseconds, because the next request is to find it so.
    pub(crate) fn shuts(&mut self) -> Option<u64> {
        let Self { rules, arrived, ended, .. } = self;
        let mut longest = None;
        for rule in rules {
            let ServerFault::Common(Fault::RefuseConnection { for_ms }) = rule.fault else { continue };
            let so_far = rule.methods.count(arrived);
            if rule.methods.count(ended) < so_far {
                // The request before it is still in hand, and would be cut off.
                continue;
            }
            if rule.shut_before <= so_far && rule.window.meets(so_far + 1) {
                rule.window.begin();
                rule.shut_before = so_far + 1;
                longest = longest.max(Some(for_ms));
            }
        }
        longest
    }

    fn tell(&mut self, arrival: &Arrival<R>, moment: Moment) {
        let meant = |waiting: &mut Waiting| waiting.request == Some(arrival.request) && waiting.moment == moment;
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
    fn met(script: &mut Script<()>, count: usize) -> Vec<bool> {
        let mut met = Vec::new();
        for _ in 0..count {
            let request = script.arrive("send");
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
            let mut script = Script::default();
            script.add("Send", when, Fault::ServerError.into());
            assert!(script.arrive("edit").fault.is_none(), "{when:?}: it is another method");
            assert_eq!(met(&mut script, 4), expected, "{when:?}");
            script.clear();
            assert_eq!(met(&mut script, 1), [false], "{when:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_starts_with_its_first_request() {
        let mut script = Script::default();
        script.add("send", When::ForMs(100), Fault::ResetAfterRead.into());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(met(&mut script, 2), [true, true], "it does not start with the script");
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(met(&mut script, 1), [false], "its time is over");
    }

    #[test]
    fn refused_connection_is_no_request() {
        let mut script = Script::<()>::default();
        script.add("send", When::Nth(2), Fault::RefuseConnection { for_ms: 100 }.into());
        assert_eq!(script.shuts(), None, "the first request finds it open");
        let first = script.arrive("send");
        assert_eq!(script.shuts(), None, "the first request would be cut off");
        script.ended(&first);
        assert_eq!((script.shuts(), script.shuts()), (Some(100), None), "once");
        assert_eq!(met(&mut script, 1), [false], "it is open again");
        assert_eq!(script.requests("send"), 2);
    }
}
