//! Events on NATS JetStream, and the requests of other programs.
//!
//! The ledger stays the truth: what is published here can be lost, repeated or late, and nothing is. See ADRs 0034 and
//! 0042.

mod bus;
mod channel;
mod connection;
mod inspect;
mod membership;
mod outgoing;
mod request;
mod request_listener;
mod request_queue;
mod settings;
mod streams;
mod subject;

pub use self::{
    bus::NatsBus,
    channel::{CHANNEL, NatsChannel},
    connection::{NatsConnection, NatsError},
    inspect::BusInspection,
    membership::{NatsGroups, is_sender_id},
    request_listener::{RequestLimits, RequestListener, SenderCheck},
    settings::{ClientCertificate, NatsLogin, NatsSettings},
};
