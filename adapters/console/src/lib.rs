//! The terminal as a channel: what is printed, which files are written, what is typed and attached.
//!
//! [`ConsoleChannel`] is the way out and the way to the person's files, [`follow_events`] shows what happens while a turn
//! runs, [`run_chat`] and [`run_once`] are the way in. All of them share one [`Screen`], so that nothing is said twice.
//! Whatever comes from a person, a model or a file's name is stripped of terminal escapes before it is printed.

mod attachments;
mod channel;
mod chat;
mod clean;
mod client;
mod follow;
mod line;
mod markdown;
mod one_shot;
mod progress;
mod prompt;
mod regular_file;
mod save;
mod screen;
mod stream;

pub use channel::{ConsoleChannel, ConsoleSettings};
pub use chat::{ChatSettings, InputEvent, run_chat};
pub use client::{ConsoleClient, ConsoleError};
pub use follow::follow_events;
pub use line::{LineCommand, parse_line};
pub use one_shot::run_once;
pub use prompt::Prompt;
pub use screen::{Screen, ScreenStyle, banner};
