//! The numbers that Discord enforces, each with the section of its documentation that states it.

use std::{collections::BTreeMap, time::Duration};

use crate::{gateway::GatewayRules, platform_state::Tier};

/// What is allowed; every number may be changed before the fake is started.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscordRules {
    /// The longest content in characters, after the blanks at its ends are cut off.
    pub content_chars: usize,
    /// The largest file in bytes, by the boosts of the guild.
    pub file_bytes: BTreeMap<Tier, u64>,
    /// The largest request, all that stands around its files included; the largest file where that is larger.
    pub request_bytes: u64,
    /// The most files on a message.
    pub files: usize,
    /// The longest description of a file, in characters.
    pub description_chars: usize,
    /// The longest waveform, as base64.
    pub waveform_chars: usize,
    /// The longest nonce, in characters.
    pub nonce_chars: usize,
    /// How long a nonce is remembered.
    pub nonce_window: Duration,
    /// The most rows of buttons, and the most buttons of a row.
    pub buttons: (usize, usize),
    /// The longest `custom_id`, in characters.
    pub custom_id_chars: usize,
    /// The longest label of a button, in characters.
    pub label_chars: usize,
    /// How long an interaction waits for its answer.
    pub interaction_ttl: Duration,
    /// How long a link to a file works.
    pub link_life: Duration,
    /// How fast a bot may ask; `None` is as fast as it can.
    pub pace: Option<DiscordRates>,
    /// What the gateway enforces.
    pub gateway: GatewayRules,
    /// Whether a connection carries one request after the other, as Discord's do. Faults that close the gate want one
    /// request a connection, so that they meet the next request and no other.
    pub keeps_connections: bool,
}

/// How fast a bot may ask (Rate Limits).
///
/// Discord tells the numbers of a route in its headers and nowhere else: "Rate limits should not be hard coded into
/// your app". Those here are what bots have been told for years; a test may choose others.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscordRates {
    /// Requests a second on all routes together but the answers to interactions.
    pub global_per_second: u32,
    /// Requests on routes that `routes` doesn't name, and in what time.
    pub others: (u32, Duration),
    /// Requests by route, and in what time; each channel has its own.
    pub routes: BTreeMap<String, (u32, Duration)>,
}

const MIB: u64 = 1024 * 1024;

impl Default for DiscordRules {
    /// The limits of Discord itself, its pace too.
    fn default() -> Self {
        Self {
            // Create Message: content, "up to 2000 characters". Which unit is meant is said nowhere; code points are
            // the widest reading, and whoever keeps to UTF-16 units stays inside it.
            content_chars: 2000,
            // Uploading Files: "The default limit is `10 MiB` for all users", and more by the guild's Boost Tier.
            file_bytes: BTreeMap::from([
                (Tier::None, 10 * MIB),
                (Tier::One, 10 * MIB),
                (Tier::Two, 50 * MIB),
                (Tier::Three, 100 * MIB),
            ]),
            request_bytes: 25 * MIB, // Create Message: "maximum request size when sending a message is 25 MiB"
            files: 10,               // OpenAPI, MessageCreateRequest.attachments: maxItems 10
            description_chars: 1024, // Attachment object: description, "max 1024 characters"
            waveform_chars: 400,     // OpenAPI, MessageAttachmentRequest.waveform: maxLength 400
            nonce_chars: 25,         // Create Message: nonce, "up to 25 characters"
            // Create Message: enforce_nonce, "checked for uniqueness in the past few minutes"
            nonce_window: Duration::from_secs(3 * 60),
            // Action Row: "Up to 5 contextually grouped buttons"; a message has five rows of the old sort.
            buttons: (5, 5),
            custom_id_chars: 100, // Button: custom_id, "1-100 characters"
            label_chars: 80,      // Button: label, "max of 80 characters"
            // Responding to an Interaction: an initial response "within 3 seconds of receiving the event"
            interaction_ttl: Duration::from_secs(3),
            // Reference, Signed Attachment CDN URLs: `ex` says when; a day is what links have been given.
            link_life: Duration::from_secs(24 * 60 * 60),
            pace: Some(DiscordRates::default()),
            gateway: GatewayRules::default(),
            keeps_connections: false,
        }
    }
}

impl DiscordRules {
    /// The same without any pace, for tests of other things.
    #[must_use]
    pub fn unpaced() -> Self {
        Self { pace: None, ..Self::default() }
    }

    pub(crate) fn file_limit(&self, tier: Tier) -> u64 {
        self.file_bytes.get(&tier).or_else(|| self.file_bytes.get(&Tier::None)).copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn request_limit(&self, tier: Tier) -> u64 {
        self.request_bytes.max(self.file_limit(tier))
    }
}

impl Default for DiscordRates {
    /// Rate Limits, Global Rate Limit: "up to 50 requests per second".
    fn default() -> Self {
        let five = (5, Duration::from_secs(5));
        let routes = [
            ("POST /channels/{}/messages", five),
            ("PATCH /channels/{}/messages/{}", five),
            ("DELETE /channels/{}/messages/{}", (5, Duration::from_secs(1))),
            ("GET /channels/{}/messages", five),
            ("GET /gateway/bot", (2, Duration::from_secs(5))),
        ];
        Self {
            global_per_second: 50,
            others: (10, Duration::from_secs(10)),
            routes: routes.map(|(route, allowed)| (route.to_owned(), allowed)).into(),
        }
    }
}
