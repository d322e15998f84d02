//! Speech over real pipes and real HTTP: programs of one's own, a strict server, and an oracle that listens.

mod oracle;
mod programs;
mod server;
mod stage;
