//! The arguments of `run`, and the roles that a process can have.

use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::{build::LaneRole, config::leaf::amount::ConfigDuration};

/// The arguments of `run`.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// What this process does, where several share a database
    #[arg(long, value_enum, default_value_t)]
    pub role: Role,
    /// Wait for a database, bucket or bus that can't be reached yet, at most this long if a duration is given
    #[arg(
        long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = ConfigDuration::from_str
    )]
    pub wait: Option<Option<ConfigDuration>>,
    /// Open the page in this desktop's browser
    #[arg(long)]
    pub open: bool,
    /// Let scripts wait for a script worker that doesn't exist yet, instead of turning them off; for builds of both
    #[arg(long, hide = true)]
    pub wait_for_worker: bool,
}

/// The arguments of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckOptions {
    /// What the process does, as it was given to `satchel run`
    #[arg(long, value_enum, default_value_t)]
    pub role: Role,
}

/// What a process does, where several share a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Role {
    /// Everything.
    #[default]
    All,
    /// Receives messages, and serves the page: agents answer.
    Gateway,
    /// Answers what gateways receive, and does what is scheduled; delivers, too, on channels without a delivery worker.
    Agent,
    /// Delivers what agents answer.
    Delivery,
}

impl Role {
    /// The name, as it is given.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Gateway => "gateway",
            Self::Agent => "agent",
            Self::Delivery => "delivery",
        }
    }

    /// Whether it connects to platforms and serves the page.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::All | Self::Gateway)
    }

    /// Whether it runs turns, and starts those that are scheduled.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(self, Self::All | Self::Agent)
    }

    /// Which work of lanes it does; `None` for one that only receives.
    #[must_use]
    pub fn lane_role(self) -> Option<LaneRole> {
        match self {
            Self::All => Some(LaneRole::All),
            Self::Gateway => None,
            Self::Agent => Some(LaneRole::Turns),
            Self::Delivery => Some(LaneRole::Deliveries),
        }
    }
}
