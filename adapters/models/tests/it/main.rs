//! Every model adapter's promise on every wire, against the strict fake model server.

mod check;
mod endless;
mod faults;
mod file_kinds;
mod files;
mod memory;
mod patience;
mod refused_files;
mod secrets;
mod stage;
mod stand_in;
mod wires;
