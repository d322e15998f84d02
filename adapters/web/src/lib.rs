//! The web as a channel: the page, its HTTP API, and what is needed to serve them to people and to nobody else.
//!
//! [`WebChannel`] is the way out: a part has arrived once its bytes can be opened, because the page reads the ledger.
//! [`WebServer`] is the way in and what people look at. [`WebLinks`] gives files of any channel away. Nothing is stored
//! here but the token and the key that signs what is handed out, which links were revoked, and which login links work.

mod auth;
mod channel;
mod failed_logins;
mod guard;
mod links;
mod live;
mod login_links;
mod markdown;
mod page;
mod problem;
mod public_url;
mod revocations;
mod routes;
mod server;
mod settings;
mod signing;
mod state;
mod token;
mod upload;
mod view;
mod wire;

pub use channel::WebChannel;
pub use links::WebLinks;
pub use login_links::{LOGIN_LINK_TTL, LoginLinks};
pub use public_url::is_local_url;
pub use server::WebServer;
pub use settings::{WebError, WebSettings};
pub use token::{MIN_TOKEN_CHARS, load_or_create_token};
