//! What is logged during a test, at every level.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_wait::is_met_in_time;
use tracing::{Subscriber, subscriber::DefaultGuard};

#[derive(Clone, Default)]
pub struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl LogCapture {
    /// Records what this thread logs, until the guard is dropped.
    #[must_use]
    pub fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.subscriber());
        (log, guard)
    }

    /// Records what all threads log from now on, in a process in which nothing else does.
    #[must_use]
    pub fn listen_on_all_threads() -> Self {
        let log = Self::default();
        tracing::subscriber::set_global_default(log.subscriber()).expect("nothing else listens");
        log
    }

    fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let writer = self.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish()
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// How many lines contain a text.
    #[must_use]
    pub fn lines_with(&self, text: &str) -> usize {
        self.text().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until at least so many lines contain a text.
    pub async fn wait_for_lines(&self, text: &str, count: usize) {
        let is_logged = is_met_in_time(async || self.lines_with(text) >= count).await;
        assert!(is_logged, "{text} is not logged: {}", self.text());
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
