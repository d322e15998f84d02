//! The console adapter: prints replies, writes their files, and reads typed messages and attachments.
//!
//! [`ConsoleChannel`] prints replies and opens the person's files, [`follow_events`] shows a running turn, and
//! [`run_chat`] and [`run_once`] submit messages. All of them share one [`Screen`], so that nothing is printed twice.
//! Text from people, models and file names is sanitized before it is printed.

mod attachments;
mod channel;
mod chat;
mod client;
mod completion;
mod delivered_file;
mod line;
mod markdown;
mod one_shot;
mod progress;
mod prompt;
mod regular_file;
mod sanitizer;
mod screen;
mod stream;
mod turn_events;

pub use channel::{ConsoleChannel, ConsoleSettings};
pub use chat::{ChatSettings, InputEvent, run_chat};
pub use client::{ConsoleClient, ConsoleError};
pub use line::{LineCommand, parse_line};
pub use one_shot::run_once;
pub use prompt::Prompt;
pub use screen::{Screen, ScreenStyle, banner};
pub use turn_events::follow_events;
