//! How replies go out: `delivery`.

use std::time::Duration;

use satchel_domain::delivery::{DeliveryRules, OnDoubt};

use super::reader::Reader;

/// How replies go out.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// How fast.
    pub pace: PaceChoice,
    /// The age at which a part is given up.
    pub max_age: Duration,
    /// What is done when nobody knows whether a part arrived.
    pub on_doubt: OnDoubt,
}

/// How fast parts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceChoice {
    /// No faster than the platform asks.
    Platform,
    /// As fast as possible, for test servers.
    Off,
}

impl Delivery {
    /// The rules by which parts are retried and given up.
    #[must_use]
    pub fn rules(&self) -> DeliveryRules {
        DeliveryRules { max_age: self.max_age, on_doubt: self.on_doubt, ..DeliveryRules::default() }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Delivery {
    Delivery {
        pace: reader.choice("delivery.pace", &[("platform", PaceChoice::Platform), ("off", PaceChoice::Off)]),
        max_age: reader.duration("delivery.max_age", Duration::from_secs(24 * 60 * 60)),
        on_doubt: reader.choice("delivery.on_doubt", &[("resend", OnDoubt::Resend), ("hold", OnDoubt::Hold)]),
    }
}
