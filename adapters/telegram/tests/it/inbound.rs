//! The way in: nothing is forgotten before it is stored, and everything that people send arrives.

mod accounts;
mod fetching;
mod harness;
mod kinds;
mod polling;
mod starting;
mod webhook;
