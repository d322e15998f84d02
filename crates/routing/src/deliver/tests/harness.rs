//! A lane with scripted parts on a channel that answers as it is told.

use super::*;

/// What a driver is asked for before it is told to finish.
#[expect(clippy::large_enum_variant, reason = "one is made a delivery and taken apart at once")]
pub(super) enum DeliveryStart {
    Started(Part),
    TakenOver,
    Planned,
}

/// Runs the driver of a lane with one request.
pub(super) async fn run(
    delivery: DeliveryContext,
    lease: Lease,
    start: DeliveryStart,
) -> Result<DriverEnd, LedgerError> {
    let (handle, requests) = DeliveryHandle::new();
    let mut driver = Driver::new(delivery, lease, requests);
    match start {
        DeliveryStart::Started(part) => handle.planned(Some(part), handle.mark()),
        DeliveryStart::TakenOver => driver.take_over().await?,
        DeliveryStart::Planned => handle.wake(),
    }
    handle.finish();
    driver.run().await
}

/// A lane with these parts and a channel that gives these answers; `log` tells what was done.
pub(super) struct DeliveryHarness {
    pub(super) parts: Vec<Part>,
    /// The parts of the turn as its record has them.
    pub(super) known: Vec<Part>,
    pub(super) answers: Vec<Answer>,
    pub(super) probes: Vec<bool>,
    /// What look-ups find, one after the other; nothing certain from then on.
    pub(super) lookups: Vec<LookupOutcome>,
    /// What the channel says of itself after it has refused the account; it is open when that changes.
    pub(super) state: ChannelState,
    /// The text by which the question is closed while it is under way.
    pub(super) closed_by: Option<String>,
    /// Whether another message to the chat is in doubt as well.
    pub(super) other_doubt: bool,
    pub(super) capabilities: ChannelCapabilities,
    /// What the channel knows of the place after its first answer, where that is something else.
    pub(super) learned: Option<ChannelCapabilities>,
    pub(super) rules: DeliveryRules,
    pub(super) speech: Option<MockSpeech>,
    pub(super) links: Option<MockFileLinks>,
    pub(super) owner_reads: bool,
    /// Whether the first voice ends in the middle.
    pub(super) breaks_off: bool,
    pub(super) discarded: Option<PartId>,
    pub(super) stop: CancellationToken,
    pub(super) process_stop: CancellationToken,
    /// How each part ended.
    pub(super) ends: Arc<Mutex<Vec<PartState>>>,
    /// How many files each send and each edit brought.
    pub(super) carried: Arc<Mutex<Vec<usize>>>,
    /// The notices as they were written down.
    pub(super) told: Arc<Mutex<Vec<String>>>,
}

impl DeliveryHarness {
    pub(super) fn new(parts: Vec<Part>, answers: Vec<Answer>) -> Self {
        Self {
            known: parts.clone(),
            parts,
            answers,
            probes: Vec::new(),
            lookups: Vec::new(),
            state: ChannelState::Closed(ChannelClosure {
                credentials: "1".to_owned(),
                number: 1,
                platform: "Console",
                reason: "doesn't accept the bot's token".to_owned(),
                remedy: "get a new one".to_owned(),
                since: Timestamp(0),
            }),
            closed_by: None,
            other_doubt: false,
            capabilities: ChannelCapabilities {
                idempotency: Idempotency::None,
                look_up: LookupRule::None,
                ..tables::telegram()
            },
            learned: None,
            rules: DeliveryRules::default(),
            speech: None,
            links: None,
            owner_reads: false,
            breaks_off: false,
            discarded: None,
            stop: CancellationToken::new(),
            process_stop: CancellationToken::new(),
            ends: Arc::default(),
            carried: Arc::default(),
            told: Arc::default(),
        }
    }

    /// Plays it, and looks at it so long after its end.
    pub(super) async fn play_longer(
        self,
        from: DeliveryStart,
        longer: Duration,
    ) -> (Vec<String>, Result<DriverEnd, LedgerError>) {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = |log: &Arc<Mutex<Vec<String>>>| {
            let log = Arc::clone(log);
            move |line: String| log.lock().unwrap().push(line)
        };
        let all = self.known;
        let rest: Arc<Mutex<VecDeque<Part>>> = Arc::new(Mutex::new(self.parts.into()));

        let mut ledger = MockLedger::default();
        let (asked, closed_by) = (all.clone(), self.closed_by);
        ledger.archive.expect_parts().returning(move |query| {
            let mut stored: Vec<Part> = asked.iter().filter(|part| Some(part.id) == query.part).cloned().collect();
            let questions = stored.iter_mut().filter_map(|part| part.question.as_mut());
            questions.for_each(|question| question.closing.clone_from(&closed_by));
            Ok(stored)
        });
        let first = Arc::clone(&rest);
        ledger.outbox.expect_next_part().returning(move |_| Ok(first.lock().unwrap().pop_front()));
        let (write, discarded) = (note(&log), self.discarded);
        ledger.outbox.expect_save_part().returning(move |_, part| {
            if discarded == Some(part.id) {
                return Err(LedgerError::AlreadySettled(part.id));
            }
            let label = if part.labelled { " labelled" } else { "" };
            let bytes = match part.content() {
                Some(PartContent::Voice { prepared: Some(_), .. }) => " with its bytes",
                _ => "",
            };
            write(format!("save {}{label}{bytes}", part.state.as_str()));
            Ok(())
        });
        let (write, ends, told) = (note(&log), self.ends, self.told);
        ledger.outbox.expect_settle_part().returning(move |_, settlement| {
            ends.lock().unwrap().push(settlement.part.state.clone());
            told.lock().unwrap().extend(settlement.notice.clone());
            let children: Vec<_> = settlement
                .children
                .iter()
                .map(|child| format!("{}{}", child.content.kind(), if child.failure.is_some() { "!" } else { "" }))
                .collect();
            let children = if children.is_empty() { String::new() } else { format!(" by {}", children.join(", ")) };
            let notice = if settlement.notice.is_some() { " with notice" } else { "" };
            write(format!("settle {}{children}{notice}", settlement.part.state.as_str()));
            let next = rest.lock().unwrap().pop_front().map(sending);
            Ok(SettleOutcome { released: next.is_none(), next })
        });
        ledger.archive.expect_turn().returning(move |id| {
            let record = TurnRecord {
                id,
                conversation: "console:main".parse().unwrap(),
                ending: None,
                response: None,
                messages: Vec::new(),
                parts: all.clone(),
                calls: Vec::new(),
                replaced_by: None,
            };
            Ok(Some(record))
        });
        ledger.outbox.expect_last_sent_before().returning(|_| Ok(None));
        let other_doubt = self.other_doubt;
        ledger
            .outbox
            .expect_list_recorded_messages()
            .returning(move |_, _| Ok(RecordedMessages { other_doubt, ..RecordedMessages::default() }));

        let mut channel = MockChannel::new();
        channel.expect_name().returning(|| satchel_domain::ChannelName::new("console").unwrap());
        let state = self.state;
        channel.expect_state().returning(move || state.clone());
        channel.expect_next_state().returning(|_| ChannelState::Open);
        let scripted = self.answers.len();
        let answers = Arc::new(Mutex::new(VecDeque::from(self.answers)));
        let (at_first, later, left) = (self.capabilities, self.learned, Arc::clone(&answers));
        channel.expect_capabilities().returning(move |_| match &later {
            Some(learned) if left.lock().unwrap().len() < scripted => learned.clone(),
            _ => at_first.clone(),
        });
        let (write, sends) = (note(&log), Arc::clone(&answers));
        let (carried, carried_by_edits) = (Arc::clone(&self.carried), self.carried);
        channel.expect_post().returning(move |part| {
            carried.lock().unwrap().push(part.content.files().len());
            let shown = match &part.content {
                PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => {
                    text.clone()
                }
                other => other.kind().to_owned(),
            };
            let answered = part.reply_to.as_ref().map(|message| format!(" to {message}")).unwrap_or_default();
            write(format!("send {shown}{answered}"));
            sends.lock().unwrap().pop_front().expect("an answer is scripted")
        });
        let write = note(&log);
        channel.expect_edit().returning(move |target, part| {
            carried_by_edits.lock().unwrap().push(part.content.files().len());
            write(format!("edit {target}"));
            answers.lock().unwrap().pop_front().expect("an answer is scripted")
        });
        let write = note(&log);
        channel.expect_delete().returning(move |_, target| {
            write(format!("delete {target}"));
            Ok(())
        });
        let (write, mut probes) = (note(&log), self.probes.into_iter());
        channel.expect_probe().returning(move || {
            let up = probes.next().unwrap_or(true);
            write(format!("probe {}", if up { "ok" } else { "down" }));
            if up { Ok(()) } else { Err(SendError::NotSent { retry_after_ms: None, reason: "down".into() }) }
        });
        let (write, mut lookups) = (note(&log), self.lookups.into_iter());
        channel.expect_find_sent().returning(move |request| {
            write(match &request.range {
                LookupRange::After(_) => "look up".to_owned(),
                LookupRange::Before(sent) => format!("look before {}", sent[0]),
                LookupRange::Late(sent) => format!("look behind {}", sent[0]),
            });
            Ok(lookups.next().unwrap_or_else(|| LookupOutcome::uncertain("nothing is scripted")))
        });
        let write = note(&log);
        channel.expect_show_activity().returning(move |_, activity| write(format!("show {activity:?}")));
        let (write, mut breaks_off) = (note(&log), self.breaks_off);
        let mut blobs = MockBlobs::new();
        blobs.expect_put().returning(move |_, _, _| {
            if std::mem::take(&mut breaks_off) {
                write("voice breaks off".into());
                return Err(BlobError::Source(std::io::Error::other("the cable was cut")));
            }
            Ok(StoredBlob { sha256: Sha256([1; 32]), bytes: 3, mime: "audio/ogg".into(), media: MediaInfo::default() })
        });
        let mut bus = MockEventBus::new();
        bus.expect_publish().returning(|_| Ok(()));
        let delivery = DeliveryContext {
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            clock: Arc::new(TokioClock::default()),
            channel: Arc::new(channel),
            blobs: Arc::new(blobs),
            speech: self.speech.map(|speech| Arc::new(speech) as Arc<dyn satchel_ports::Speech>),
            bus: Arc::new(bus),
            links: self.links.map(|links| Arc::new(links) as Arc<dyn satchel_ports::FileLinks>),
            owner_reads: self.owner_reads,
            rules: self.rules,
            stop: self.stop,
            process_stop: self.process_stop,
        };
        let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
        let left = run(delivery, lease, from).await;
        // Under paused time.
        tokio::time::sleep(longer).await;
        let log = log.lock().unwrap().clone();
        (log, left)
    }

    pub(super) async fn play(self, from: DeliveryStart) -> (Vec<String>, Result<DriverEnd, LedgerError>) {
        self.play_longer(from, Duration::ZERO).await
    }

    pub(super) async fn log(self) -> Vec<String> {
        self.play(DeliveryStart::TakenOver).await.0
    }
}
