//! The web adapter: the page, its HTTP API, and their authentication.
//!
//! [`WebChannel`] delivers parts: one has arrived once its bytes can be opened, because the page reads the ledger.
//! [`WebServer`] serves the page and the API. [`WebLinks`] creates links to the files of all channels. The adapter
//! stores only the token, the signing key and the valid login links; logins are in the ledger.

mod administration;
mod auth;
mod channel;
mod client_name;
mod export;
mod failed_logins;
mod guard;
mod links;
mod live;
mod login_links;
mod login_registry;
mod login_watch;
mod markdown;
mod openai;
mod page;
mod previews;
mod problem;
mod public_url;
mod revocations;
mod routes;
mod server;
mod settings;
mod signing;
mod state;
mod token;
mod turn_wait;
mod url_signer;
mod view;
mod wire;

pub use administration::{
    Administration, AdministrationError, SystemChannel, SystemDirectory, SystemFinding, SystemModel, SystemOverview,
    SystemPairing, SystemPart, SystemPeople, SystemPerson, SystemReminder, SystemSchedule, SystemSetting, SystemTool,
};
pub use channel::WebChannel;
pub use links::WebLinks;
pub use login_links::{LOGIN_LINK_TTL, LoginLinks};
pub use public_url::is_local_url;
pub use server::{WebPorts, WebServer};
pub use settings::{PageCommand, PageCommandChoice, WebError, WebSettings};
pub use token::{MIN_TOKEN_CHARS, load_or_create_token};
