//! The fakes: the Bot API, Discord, and what goes wrong on both.

mod discord;
mod outages;
mod python;
mod telegram;
