//! The page in a real browser against the real binary.

mod accessibility;
mod choices;
mod completion;
mod conversations;
mod delivery;
mod files;
mod files_panel;
mod formats;
mod hostile_content;
mod keyboard;
mod layout;
mod many_files;
mod model_picker;
mod models;
mod narrow;
mod notifications;
mod previews;
mod prose;
mod questions;
mod readme_steps;
mod recall;
mod refusals;
mod retries;
mod survival;
mod token;
mod tools;
