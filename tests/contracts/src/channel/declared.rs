//! A fixture that is held to what it declares: what it can't bring about is named, and nothing else is passed over.

use super::*;

/// What a fixture can't bring about, named in `channel_contract!(fixture, without: […])`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// [`ChannelFault::ConnectionRefused`]
    ConnectionRefused,
    /// [`ChannelFault::RateLimited`]
    RateLimited,
    /// [`ChannelFault::ServerError`]
    ServerError,
    /// [`ChannelFault::Reset`]
    Reset,
    /// [`ChannelFault::ResponseLost`]
    ResponseLost,
    /// [`ChannelFault::ForeignResponse`]
    ForeignResponse,
    /// [`ChannelFault::Hang`]
    Hang,
    /// [`ChannelFault::Forbidden`]
    Forbidden,
    /// [`ChannelFixture::person_sends`]
    InboundFiles,
}

impl From<ChannelFault> for Gap {
    fn from(fault: ChannelFault) -> Self {
        match fault {
            ChannelFault::ConnectionRefused => Self::ConnectionRefused,
            ChannelFault::RateLimited { .. } => Self::RateLimited,
            ChannelFault::ServerError => Self::ServerError,
            ChannelFault::Reset => Self::Reset,
            ChannelFault::ResponseLost => Self::ResponseLost,
            ChannelFault::ForeignResponse => Self::ForeignResponse,
            ChannelFault::Hang => Self::Hang,
            ChannelFault::Forbidden => Self::Forbidden,
        }
    }
}

/// A fixture with its declared gaps. A gap that isn't declared fails the promise that meets it, and so does a declared
/// one that isn't a gap.
pub struct DeclaredFixture<F> {
    fixture: F,
    gaps: &'static [Gap],
}

impl<F> DeclaredFixture<F> {
    #[must_use]
    pub fn new(fixture: F, gaps: &'static [Gap]) -> Self {
        Self { fixture, gaps }
    }

    fn assert_declared(&self, gap: Gap, is_possible: bool) {
        let is_declared = self.gaps.contains(&gap);
        assert!(is_possible || is_declared, "the fixture can't do {gap:?}: say so with `without: [{gap:?}]`");
        assert!(!is_possible || !is_declared, "the fixture can do {gap:?}: take it off `without`");
    }
}

#[async_trait]
impl<F: ChannelFixture> ChannelFixture for DeclaredFixture<F> {
    fn channel(&self) -> Arc<dyn Channel> {
        self.fixture.channel()
    }

    fn conversation(&self) -> ConversationId {
        self.fixture.conversation()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.fixture.blobs()
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        self.fixture.arrived_messages().await
    }

    async fn inject_fault(&self, fault: ChannelFault) -> bool {
        let is_possible = self.fixture.inject_fault(fault).await;
        self.assert_declared(fault.into(), is_possible);
        is_possible
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let reference = self.fixture.person_sends(filename, content).await;
        self.assert_declared(Gap::InboundFiles, reference.is_some());
        reference
    }
}
