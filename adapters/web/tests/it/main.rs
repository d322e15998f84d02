//! The server over a real loopback socket, on the stores that people have.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails ends the test")]

mod api;
mod commands;
mod connections;
mod conversation_files;
mod conversations;
mod events;
mod exports;
mod files;
mod links;
mod live;
mod logins;
mod notifications;
mod openai;
mod previews;
mod retries;
mod security;
mod stage;
mod system;
mod uploads;
mod waits;
