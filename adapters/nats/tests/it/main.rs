//! The adapter against a real NATS server.

#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

mod bus;
mod bus_contract;
mod channel;
mod harness;
mod inspecting;
mod neighbours;
mod outages;
mod request_handling;
mod requests;
mod slow_inbound;
mod streams;
mod stub_inbound;
mod tls;
