//! Everything that a program needs to embed Satchel. See `docs/guide/embedding.md`.
//!
//! A front end implements [`ports::Channel`], adds it to [`Ports`], calls [`build()`], runs the [`Runner`] and passes
//! messages to [`ports::Inbound`].

pub use satchel_agent::{AgentSettings, SteeringMode, prompt};
/// The domain types: messages, files, parts and their ids.
pub use satchel_domain as domain;
pub use satchel_files::{DirectoryBlobs, DirectoryWorkspace, MemoryBlobs, NativeRunner};
pub use satchel_http::{AllowedTarget, FetchSettings, HttpFetcher};
pub use satchel_intake::{
    InternalInbound,
    access::{self, AccessPolicy, ChannelAccess},
    prepare::InboundLimits,
};
pub use satchel_ledger_sqlite::{QuotaRules, Settings as LedgerSettings, SqliteLedger, VerbSettings, WorkScope};
pub use satchel_local::{LocalBus, ModelScript, OfflineModel, ScriptedModel, SystemClock, UuidV7, scripted_model};
/// The traits that connect the core with the world, and what they exchange.
pub use satchel_ports as ports;
/// Planning and delivery, and the capability tables of the channels.
pub use satchel_routing::{self as routing, tables};
pub use satchel_tools::{ScriptRules, ToolLimits, path_fields};

pub use crate::{
    agents::AgentDeclaration,
    build::{BuildError, Runner, Satchel, SatchelOptions, build},
    metered_workspace::MeteredWorkspace,
    ports::{ExtraTool, Ports},
    runtime::machine_zone,
};

#[cfg(feature = "terminal")]
pub use satchel_console as terminal;
#[cfg(feature = "documents")]
pub use satchel_decoders as documents;
#[cfg(feature = "discord")]
pub use satchel_discord as discord;
#[cfg(feature = "models")]
pub use satchel_models as models;
#[cfg(feature = "sandbox")]
pub use satchel_sandbox as sandbox;
#[cfg(feature = "speech")]
pub use satchel_speech as speech;
#[cfg(feature = "scripts")]
pub use satchel_starlark as scripts;
#[cfg(feature = "telegram")]
pub use satchel_telegram as telegram;
#[cfg(feature = "web")]
pub use satchel_web as web;
