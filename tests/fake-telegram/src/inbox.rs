//! Updates that no bot has confirmed yet, and how the bot wants to hear of them: by polling or at a webhook.

use std::{
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
};

use reqwest::Url;
use serde_json::{Value, json};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    refusal::{ApiRefusal, bad},
};

/// getUpdates: allowed_updates, by default "all update types except" these.
const OPT_IN_KINDS: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];

#[derive(Debug, Default)]
pub(crate) struct TelegramInbox {
    /// Oldest first, each with its `update_id`.
    pub(crate) updates: VecDeque<(i64, Value)>,
    /// Counts polls: a newer one ends the older ones.
    pub(crate) polls: u64,
    pub(crate) webhook: Option<FakeWebhook>,
    /// Where the webhook's address leads, as a proxy in front of the bot decides.
    pub(crate) behind_proxy: Option<SocketAddr>,
    /// What the bot asked for last; it stays until it asks for something else.
    allowed: Option<BTreeSet<String>>,
    last_update: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeWebhook {
    pub(crate) url: Url,
    pub(crate) secret: Option<String>,
    pub(crate) last_error: Option<(i64, String)>,
}

impl TelegramInbox {
    /// Queues an update of a kind, if the bot wants to hear of it.
    pub(crate) fn queue(&mut self, kind: &str, content: Value) {
        let wanted = match &self.allowed {
            Some(allowed) => allowed.contains(kind),
            None => !OPT_IN_KINDS.contains(&kind),
        };
        if wanted {
            self.queue_raw(json!({ kind: content }));
        }
    }

    /// Queues an update as it is, with a number of its own. Returns the number.
    pub(crate) fn queue_raw(&mut self, update: Value) -> i64 {
        // Update, update_id: "start from a certain positive number and increase sequentially".
        self.last_update += 1;
        let number = 500_000_000 + self.last_update;
        let mut numbered = json!({ "update_id": number });
        if let (Some(object), Value::Object(fields)) = (numbered.as_object_mut(), update) {
            object.extend(fields);
        }
        self.updates.push_back((number, numbered));
        number
    }

    /// What a poll gets now; what its offset confirms is forgotten.
    ///
    /// getUpdates: "An update is considered confirmed as soon as getUpdates is called with an offset higher than its
    /// update_id"; a negative one counts "from the end of the updates queue", and "all previous updates will be
    /// forgotten".
    pub(crate) fn poll(&mut self, offset: i64, limit: usize) -> Vec<Value> {
        if offset < 0 {
            let kept = usize::try_from(-offset).unwrap_or(usize::MAX).min(self.updates.len());
            self.updates.drain(..self.updates.len() - kept);
        } else {
            self.updates.retain(|(number, _)| *number >= offset);
        }
        self.updates.iter().take(limit).map(|(_, update)| update.clone()).collect()
    }

    /// getUpdates and setWebhook: allowed_updates, "If not specified, the previous setting will be used"; "an empty
    /// list" is the default again; "doesn't affect updates created before the call".
    pub(crate) fn allow(&mut self, call: &ReceivedCall) -> Result<(), ApiRefusal> {
        if let Some(Value::Array(kinds)) = call.json("allowed_updates")? {
            let kinds: BTreeSet<_> = kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            self.allowed = (!kinds.is_empty()).then_some(kinds);
        }
        Ok(())
    }

    pub(crate) fn set_webhook(&mut self, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
        let url = call.text("url").unwrap_or_default();
        if url.is_empty() {
            // setWebhook: url, "Use an empty string to remove webhook integration".
            return Ok(self.delete_webhook(call));
        }
        let url = Url::parse(&url).map_err(|_| bad("bad webhook: invalid URL specified"))?;
        if rules.local_files.is_none() {
            // setWebhook: "HTTPS URL"; Using a Local Bot API Server lifts both.
            if url.scheme() != "https" {
                return Err(bad("bad webhook: An HTTPS URL must be provided for webhook"));
            }
            if !matches!(url.port_or_known_default(), Some(443 | 80 | 88 | 8443)) {
                return Err(bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443"));
            }
        }
        let secret = call.text("secret_token").filter(|secret| !secret.is_empty());
        if let Some(secret) = &secret {
            // setWebhook: secret_token, "1-256 characters. Only characters A-Z, a-z, 0-9, _ and - are allowed."
            if secret.len() > 256 {
                return Err(bad("secret token is too long"));
            }
            if !secret.chars().all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '-') {
                return Err(bad("secret token contains unallowed characters"));
            }
        }
        self.allow(call)?;
        if call.flag("drop_pending_updates") {
            self.updates.clear();
        }
        self.webhook = Some(FakeWebhook { url, secret, last_error: None });
        Ok(json!(true))
    }

    pub(crate) fn delete_webhook(&mut self, call: &ReceivedCall) -> Value {
        if call.flag("drop_pending_updates") {
            self.updates.clear();
        }
        self.webhook = None;
        json!(true)
    }

    /// getWebhookInfo.
    pub(crate) fn webhook_info(&self) -> Value {
        let url = self.webhook.as_ref().map_or("", |webhook| webhook.url.as_str());
        let mut info =
            json!({ "url": url, "has_custom_certificate": false, "pending_update_count": self.updates.len() });
        if let Some((date, words)) = self.webhook.as_ref().and_then(|webhook| webhook.last_error.as_ref()) {
            info["last_error_date"] = json!(date);
            info["last_error_message"] = json!(words);
        }
        info
    }
}
