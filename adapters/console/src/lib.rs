//! The terminal as a channel: what is printed, which files are written, what is typed and attached.
//!
//! [`ConsoleChannel`] is the way out and the way to the person's files, [`follow`] shows what happens while a turn
//! runs, [`converse`] and [`once`] are the way in. All of them share one [`Screen`], so that nothing is said twice.
//! Whatever comes from a person, a model or a file's name is stripped of terminal escapes before it is printed.

mod attach;
mod channel;
mod clean;
mod client;
mod converse;
mod follow;
mod line;
mod markdown;
mod once;
mod progress;
mod prompt;
mod regular_file;
mod save;
mod screen;
mod stream;

pub use channel::{ConsoleChannel, ConsoleSettings};
pub use client::{ConsoleClient, ConsoleError};
pub use converse::{ConverseSettings, Typed, converse};
pub use follow::follow;
pub use line::{Line, interpret};
pub use once::once;
pub use prompt::Prompt;
pub use screen::{Look, Screen, banner};
