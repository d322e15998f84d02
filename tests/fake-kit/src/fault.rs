//! What can go wrong between a client and a server, as data that a table can list.

/// Which requests of a method a fault meets. They are counted from 1 since the server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTiming {
    /// The one with this number.
    Nth(u64),
    /// The first so many.
    First(u64),
    /// All with a number from here on.
    From(u64),
    Every,
    /// All that arrive within so many milliseconds, from the first one on.
    ForMs(u64),
}

impl FaultTiming {
    /// Whether the request with this number is met, as far as numbers tell.
    #[must_use]
    pub fn meets(self, number: u64) -> bool {
        match self {
            Self::Nth(nth) => number == nth,
            Self::First(count) => number <= count,
            Self::From(first) => number >= first,
            Self::Every | Self::ForMs(_) => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing listens when the client comes with the request: it certainly did not arrive.
    RefuseConnection {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// The request is cut off unread, and nothing listens for a while.
    Outage {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// 429 with the platform's own wait.
    RateLimit {
        /// The wait in milliseconds.
        retry_after_ms: u64,
    },
    /// 500 with a readable body: the platform says that it did nothing.
    ServerError,
    /// 500 with a readable body from a server that shuts down with the request in hand. Telegram's words for it are
    /// `restart` and `Request aborted`, whether the request went through or not.
    Restart {
        /// Whether the request was performed.
        performed: bool,
    },
    /// 502 with an HTML body, as a proxy in front of the platform answers.
    BadGateway {
        /// Whether the platform behind the proxy performed the request.
        performed: bool,
    },
    /// The connection is dropped before the request is read; of a download, after half of the bytes.
    ResetMidTransfer,
    /// The request is read to its end and not performed, and the connection is cut without an answer. A client can't
    /// tell it from [`Fault::AcceptAndDrop`].
    ResetAfterRead,
    /// The request is performed, and the connection is cut without an answer.
    AcceptAndDrop,
    /// The request is read to its end, and the connection is cut without an answer. It is performed later: a message
    /// takes its id then.
    AcceptLate {
        /// How much later, in milliseconds.
        after_ms: u64,
    },
    /// The same, performed when the test says so with the server's `release_requests`.
    AcceptOnRelease,
    /// No answer ever comes.
    Hang {
        /// Whether the request is performed first.
        performed: bool,
    },
    /// 400: the markup can't be read. Meets rich texts only, since plain ones have none.
    BadMarkup,
    /// 400 that names one item of an album.
    BadItem {
        /// Its place, from 0.
        index: usize,
    },
    /// 413.
    TooLarge,
    /// 403.
    Forbidden,
    /// The conversation does not exist any more.
    ChatGone,
    /// 400: voice messages are forbidden here. Meets voices only.
    VoiceForbidden,
}

impl Fault {
    /// Whether the request is read at all.
    pub fn is_read(self) -> bool {
        !matches!(self, Self::ResetMidTransfer | Self::Outage { .. } | Self::Hang { performed: false })
    }

    /// Whether the request is performed before whatever stands in place of its answer.
    pub fn is_performed(self) -> bool {
        match self {
            Self::AcceptAndDrop => true,
            Self::BadGateway { performed } | Self::Hang { performed } | Self::Restart { performed } => performed,
            _ => false,
        }
    }

    /// Whether the request is performed after its connection was cut.
    pub fn is_late(self) -> bool {
        matches!(self, Self::AcceptLate { .. } | Self::AcceptOnRelease)
    }
}

/// What goes wrong with a request to a server whose refusals are of the sort `R`.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerFault<R> {
    /// What can go wrong on every platform. Faults of one sort of message meet that sort only.
    Common(Fault),
    /// The request is not performed, and refused in these words.
    Refuse(R),
    /// The request is not performed, and this stands in place of an answer.
    Answer {
        status: u16,
        /// The body, which need not be JSON.
        body: String,
    },
}

impl<R> ServerFault<R> {
    /// The fault that all platforms have, if it is one.
    pub fn common(&self) -> Option<Fault> {
        match self {
            Self::Common(fault) => Some(*fault),
            _ => None,
        }
    }
}

impl<R> From<Fault> for ServerFault<R> {
    fn from(fault: Fault) -> Self {
        Self::Common(fault)
    }
}

/// A phase of a request that a test can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestPhase {
    /// Its head was read; nothing has been done yet.
    Arrived,
    /// It was performed, and its answer is not written yet.
    Performed,
}
