//! A ledger that fails, or never answers, when it is told to, and a clock that leaps.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::Timestamp;
use satchel_ledger_sqlite::SqliteLedger;
use satchel_local::SystemClock;
use satchel_ports::{
    Clock, LedgerError,
    intercept::{Hook, Intercepted, VERBS},
};

/// What a verb does instead of its work.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    FailsOnce,
    FailsAlways,
    HangsAlways,
}

pub(super) type FailingLedger = Intercepted<SqliteLedger, FailureHook>;

#[derive(Default)]
pub(super) struct FailureHook {
    trouble: Mutex<Option<(&'static str, Trouble)>>,
    met: AtomicU32,
    clock: Arc<LeapingClock>,
    /// The verbs that were called, those since the clock has leapt if it has.
    calls: Mutex<Vec<&'static str>>,
    /// What happens behind the next `receive`, before its caller knows of it.
    behind_receive: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// A clock that leaps when it is told to. That of the lanes is another one than the ledger's, so that a lease goes on after it
/// seems to have expired.
#[derive(Debug, Default)]
pub(super) struct LeapingClock {
    machine: SystemClock,
    /// How far it has leapt ahead, in milliseconds.
    leapt: AtomicI64,
}

impl LeapingClock {
    /// Lets the clock leap ahead of the machine's.
    pub(super) fn leap(&self, by: Duration) {
        self.leapt.store(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for LeapingClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.machine.now().0 + self.leapt.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

impl FailureHook {
    /// From now on the verb is in trouble.
    pub(super) fn trouble(&self, verb: &'static str, trouble: Trouble) {
        assert!(VERBS.contains(&verb), "there is no verb {verb}");
        *self.trouble.lock().unwrap() = Some((verb, trouble));
    }

    /// Runs `what` on a thread of its own behind the next `receive`, before its caller knows of it.
    pub(super) fn run_behind_receive(&self, what: impl FnOnce() + Send + 'static) {
        *self.behind_receive.lock().unwrap() = Some(Box::new(what));
    }

    /// How often the trouble was met.
    pub(super) fn met(&self) -> u32 {
        self.met.load(Ordering::Relaxed)
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    /// Lets the clock leap ahead.
    pub(super) fn leap(&self, by: Duration) {
        let mut calls = self.calls.lock().unwrap();
        self.clock.leap(by);
        calls.clear();
    }

    /// The verbs that were called, those since the clock has leapt if it has.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl Hook for FailureHook {
    type Passage = ();

    async fn before_call(&self, verb: &'static str) -> Result<(), LedgerError> {
        self.calls.lock().unwrap().push(verb);
        let trouble = {
            let mut set = self.trouble.lock().unwrap();
            let trouble = set.filter(|(troubled, _)| *troubled == verb).map(|(_, trouble)| trouble);
            if matches!(trouble, Some(Trouble::FailsOnce)) {
                *set = None;
            }
            trouble
        };
        let Some(trouble) = trouble else { return Ok(()) };
        self.met.fetch_add(1, Ordering::Relaxed);
        match trouble {
            Trouble::FailsOnce | Trouble::FailsAlways => Err(LedgerError::Full),
            Trouble::HangsAlways => std::future::pending().await,
        }
    }

    fn after_call(&self, verb: &'static str, (): ()) {
        if verb == "ledger.receive"
            && let Some(what) = self.behind_receive.lock().unwrap().take()
        {
            std::thread::spawn(what).join().unwrap();
        }
    }
}
