//! The fake chat platform: its state, its script of faults, and what a test asks of it.

mod door;
mod inbox;
mod routes;
mod store;
mod upload;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_domain::{ConversationId, FileReference, Filename, MessageRef};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use self::door::{Cut, Door, Doorway};
use crate::{
    FakeFile, Fault, Moment, Operation, PlatformRules, ScriptedFault, Transcript, When,
    late_requests::LateRequests,
    platform::{inbox::Inbox, store::Store},
    script::ScriptWindow,
};

/// A chat platform on a free loopback port, with a strict mind and scripted faults. It ends when it is dropped.
pub struct FakePlatform {
    shared: Arc<Shared>,
}

/// What the routes work on.
pub(crate) struct Shared {
    pub(crate) rules: PlatformRules,
    pub(crate) door: Arc<Door>,
    pub(crate) stopped: CancellationToken,
    pub(crate) arrived: Notify,
    pub(crate) late: LateRequests,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) inbox: Inbox,
    script: Vec<Rule>,
    requests: HashMap<Operation, u64>,
    /// The last request of each operation that has been answered or cut off.
    ended: HashMap<Operation, u64>,
    waiting: Vec<(Operation, u64, Moment, oneshot::Sender<()>)>,
}

struct Rule {
    scripted: ScriptedFault,
    window: ScriptWindow,
    /// The last request before which the door was shut; it is shut once for each.
    shut_before: u64,
}

/// A request that has arrived.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) operation: Operation,
    pub(crate) number: u64,
    pub(crate) fault: Option<Fault>,
}

impl FakePlatform {
    /// Starts a platform with these rules, usually [`crate::FakeMode::rules`].
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub async fn start(rules: PlatformRules) -> io::Result<Self> {
        crate::install_tls_provider();
        let door = Door::open().await?;
        let stopped = CancellationToken::new();
        let shared = Arc::new(Shared {
            rules,
            door: Arc::clone(&door),
            stopped: stopped.clone(),
            arrived: Notify::new(),
            late: LateRequests::default(),
            state: Mutex::default(),
        });
        let service = routes::router(Arc::clone(&shared)).into_make_service_with_connect_info::<Cut>();
        let serving = axum::serve(Doorway(door), service).with_graceful_shutdown(stopped.cancelled_owned());
        // It ends with the token, which the platform cancels when it is dropped.
        tokio::spawn(async move { serving.await });
        Ok(Self { shared })
    }

    /// Where clients find it.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.shared.door.address())
    }

    /// The rules that it enforces.
    #[must_use]
    pub fn rules(&self) -> &PlatformRules {
        &self.shared.rules
    }

    /// Lets something go wrong with requests that are to come. Where several lines meet a request, the first counts.
    pub fn script(&self, operation: Operation, when: When, fault: Fault) {
        let scripted = ScriptedFault { operation, when, fault };
        self.shared.state().script.push(Rule { scripted, window: ScriptWindow::new(when), shut_before: 0 });
        self.shared.shut_if_scripted();
    }

    /// Lets the next request of an operation go wrong.
    pub fn script_next(&self, operation: Operation, fault: Fault) {
        self.script(operation, When::Nth(self.requests(operation) + 1), fault);
    }

    pub fn clear_script(&self) {
        self.shared.state().script.clear();
    }

    /// Performs the requests that [`Fault::AcceptOnRelease`] has withheld so far, in the order of their coming.
    pub fn release_requests(&self) {
        self.shared.late.release();
    }

    /// How many requests of an operation have arrived; refused connections are none.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> u64 {
        self.shared.state().requests.get(&operation).copied().unwrap_or(0)
    }

    /// Tells when the `number`th request of an operation, counted from 1 since the start, reaches a moment.
    pub fn on_nth(&self, operation: Operation, number: u64, moment: Moment) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.shared.state().waiting.push((operation, number, moment, sender));
        receiver
    }

    /// Refuses all connections for a while, from now on.
    pub fn refuse_connections(&self, duration: Duration) {
        self.shared.door.shut(duration);
    }

    /// What stands in the conversations.
    #[must_use]
    pub fn transcript(&self) -> Transcript {
        self.shared.state().store.transcript.clone()
    }

    /// Keeps the bytes of the files that arrive from now on in the transcript.
    pub fn keep_file_bytes(&self) {
        self.shared.state().store.keep_bytes = true;
    }

    /// Ends a conversation for good: whatever is sent to it is refused.
    pub fn end_conversation(&self, conversation: &ConversationId) {
        self.shared.state().store.ended.insert(conversation.clone());
    }

    /// Lets a person or a moderator delete a message.
    pub fn delete_message(&self, conversation: &ConversationId, message: &MessageRef) {
        let deleted = self.shared.state().store.delete(conversation, message);
        debug_assert!(deleted, "a test deletes what is there");
    }

    /// Takes the right to read history away.
    pub fn forbid_history(&self) {
        self.shared.state().store.history_forbidden = true;
    }

    /// Lets all remembered nonces expire at once.
    pub fn expire_nonces(&self) {
        self.shared.state().store.nonces.clear();
    }

    /// Lets a person write, with all files on one message. Returns the message's id.
    pub fn person_says(&self, conversation: &ConversationId, text: &str, files: Vec<FakeFile>) -> MessageRef {
        let message = self.shared.state().say(conversation, text, files, None);
        self.shared.arrived.notify_waiters();
        message
    }

    /// Lets a person send an album: one update a file, all with one media group, the words under the first.
    pub fn person_sends_album(
        &self,
        conversation: &ConversationId,
        text: &str,
        files: Vec<FakeFile>,
    ) -> Vec<MessageRef> {
        let mut state = self.shared.state();
        let album = format!("album-{}", state.store.peek_id());
        let with_words = |index: usize| if index == 0 { text } else { "" };
        let messages = files
            .into_iter()
            .enumerate()
            .map(|(index, file)| state.say(conversation, with_words(index), vec![file], Some(album.clone())))
            .collect();
        drop(state);
        self.shared.arrived.notify_waiters();
        messages
    }

    /// Lets a person change the words of a message.
    pub fn person_edits(&self, conversation: &ConversationId, message: &MessageRef, text: &str) {
        self.shared.state().person_edits(conversation, message, text);
        self.shared.arrived.notify_waiters();
    }

    /// Uploads a file as a person does, without a message, and returns what a channel fetches it by.
    pub fn person_uploads(&self, file: FakeFile) -> FileReference {
        let filename = Filename::from_untrusted(&file.filename);
        let (mime, bytes) = (file.mime.clone(), file.bytes());
        let locator = self.shared.state().inbox.keep(file);
        FileReference { mime: Some(mime), bytes: Some(bytes), ..FileReference::new(locator, filename) }
    }

    /// Lets all files that people sent expire.
    pub fn expire_files(&self) {
        self.shared.state().inbox.files.clear();
    }

    /// How many updates no client has confirmed yet.
    #[must_use]
    pub fn unconfirmed_updates(&self) -> usize {
        self.shared.state().inbox.updates.len()
    }
}

impl Drop for FakePlatform {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request and says what is to go wrong with it.
    pub(crate) fn arrive(&self, operation: Operation) -> Arrival {
        let mut state = self.state();
        let count = state.requests.entry(operation).or_default();
        *count += 1;
        let number = *count;
        let meant = |rule: &&mut Rule| {
            let ScriptedFault { operation: of, fault, .. } = rule.scripted;
            of == operation && rule.window.meets(number) && !matches!(fault, Fault::RefuseConnection { .. })
        };
        let fault = state.script.iter_mut().find(meant).map(|rule| {
            rule.window.begin();
            rule.scripted.fault
        });
        state.tell(operation, number, Moment::Arrived);
        Arrival { operation, number, fault }
    }

    /// Notes that a request has been answered or cut off.
    pub(crate) fn ended(&self, arrival: Arrival) {
        self.state().ended.insert(arrival.operation, arrival.number);
    }

    pub(crate) fn performed(&self, arrival: Arrival) {
        self.state().tell(arrival.operation, arrival.number, Moment::Performed);
    }

    /// Shuts the door if the next request of an operation is scripted to find it shut.
    pub(crate) fn shut_if_scripted(&self) {
        let mut state = self.state();
        let State { script, requests, ended, .. } = &mut *state;
        for rule in script {
            let Fault::RefuseConnection { for_ms } = rule.scripted.fault else { continue };
            let arrived = requests.get(&rule.scripted.operation).copied().unwrap_or(0);
            if ended.get(&rule.scripted.operation).copied().unwrap_or(0) < arrived {
                // The request before it is still in hand, and would be cut off.
                continue;
            }
            let next = arrived + 1;
            if rule.shut_before < next && rule.window.meets(next) {
                rule.window.begin();
                rule.shut_before = next;
                self.door.shut(Duration::from_millis(for_ms));
            }
        }
    }
}

impl State {
    fn tell(&mut self, operation: Operation, number: u64, moment: Moment) {
        let meant = |waiting: &mut (Operation, u64, Moment, _)| {
            (waiting.0, waiting.1, waiting.2) == (operation, number, moment)
        };
        for (.., sender) in self.waiting.extract_if(.., meant) {
            // Who waited may have given up.
            let _gone = sender.send(());
        }
    }
}

/// Conversations that have ended.
type Ended = HashSet<ConversationId>;
