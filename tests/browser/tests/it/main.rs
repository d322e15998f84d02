//! The page in a real browser against the real binary.

mod accessible;
mod choices;
mod delivery;
mod files;
mod formats;
mod hostile;
mod keyboard;
mod layout;
mod models;
mod narrow;
mod newcomer;
mod questions;
mod refusals;
mod survival;
mod token;
