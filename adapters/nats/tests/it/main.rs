//! The adapter against a real NATS server.

mod bus;
mod bus_contract;
mod channel;
mod harness;
mod outages;
mod requests;
