//! The web as a channel: the page, its HTTP API, and what is needed to serve them to people and to nobody else.
//!
//! [`WebChannel`] is the way out: a part has arrived once its bytes can be opened, because the page reads the ledger.
//! [`WebServer`] is the way in and what people look at. [`WebLinks`] gives files of any channel away. Nothing is stored
//! here but the key that signs what is handed out, and which links were revoked.

mod access;
mod channel;
mod connections;
mod guard;
mod links;
mod live;
mod markdown;
mod page;
mod patient_stream;
mod peer;
mod problem;
mod public_url;
mod revoked;
mod routes;
mod server;
mod settings;
mod signing;
mod site;
mod upload;
mod view;
mod wire;

pub use channel::WebChannel;
pub use links::WebLinks;
pub use server::WebServer;
pub use settings::{WebError, WebSettings};
