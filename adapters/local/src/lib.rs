//! The parts of Satchel that need nothing but the process itself: a clock, ids, a bus, a scripted model, and the
//! offline model.
//!
//! The bus and the offline model serve a machine with no account and no key; the scripted model serves tests and
//! people who embed Satchel.

pub mod bus;
pub mod clock;
pub mod offline_model;
pub mod scripted_model;

pub use bus::LocalBus;
pub use clock::{SystemClock, UuidV7};
pub use offline_model::OfflineModel;
pub use scripted_model::{ModelScript, ScriptedModel};
