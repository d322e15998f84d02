//! The page in a real browser against the real binary.

mod accessibility;
mod choices;
mod completion;
mod conversations;
mod delivery;
mod files;
mod formats;
mod hostile_content;
mod keyboard;
mod layout;
mod models;
mod narrow;
mod previews;
mod questions;
mod readme_steps;
mod refusals;
mod retries;
mod settings;
mod survival;
mod token;
mod tools;
