//! How replies are sent: `delivery`.

use std::time::Duration;

use satchel_domain::delivery::{DeliveryRules, OnDoubt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::amount::ConfigDuration;

/// How replies are sent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeliveryConfig {
    /// `platform`: no faster than the platform allows. `off`: as fast as possible, for test servers.
    pub pace: RateLimitMode,
    /// The age at which an undelivered part of a reply is given up.
    pub max_age: ConfigDuration,
    /// What happens to a part that may have arrived. `resend`: it is sent again, up to three times, labelled as a
    /// possible duplicate. `hold`: it is given up as "may have arrived".
    #[schemars(with = "String", extend("enum" = [OnDoubt::Resend, OnDoubt::Hold]))]
    pub on_doubt: OnDoubt,
}

/// How fast parts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitMode {
    Platform,
    Off,
}

impl Default for DeliveryConfig {
    fn default() -> Self {
        let max_age = ConfigDuration(Duration::from_secs(24 * 60 * 60));
        Self { pace: RateLimitMode::Platform, max_age, on_doubt: OnDoubt::Resend }
    }
}

impl DeliveryConfig {
    /// The rules by which parts are retried and given up.
    #[must_use]
    pub fn rules(&self) -> DeliveryRules {
        DeliveryRules { max_age: self.max_age.0, on_doubt: self.on_doubt, ..DeliveryRules::default() }
    }
}
