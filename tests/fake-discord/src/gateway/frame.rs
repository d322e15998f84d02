//! What goes over the wire: opcodes, close codes, payloads, and the stream that a client may want compressed.

use serde_json::{Value, json};

pub(crate) mod opcode {
    pub(crate) const DISPATCH: u64 = 0;
    pub(crate) const HEARTBEAT: u64 = 1;
    pub(crate) const IDENTIFY: u64 = 2;
    pub(crate) const PRESENCE_UPDATE: u64 = 3;
    pub(crate) const VOICE_STATE_UPDATE: u64 = 4;
    pub(crate) const RESUME: u64 = 6;
    pub(crate) const RECONNECT: u64 = 7;
    pub(crate) const REQUEST_GUILD_MEMBERS: u64 = 8;
    pub(crate) const INVALID_SESSION: u64 = 9;
    pub(crate) const HELLO: u64 = 10;
    pub(crate) const HEARTBEAT_ACK: u64 = 11;
    pub(crate) const REQUEST_SOUNDBOARD_SOUNDS: u64 = 31;
}

/// Gateway Close Event Codes.
pub(crate) mod close {
    pub(crate) const UNKNOWN_ERROR: u16 = 4000;
    pub(crate) const UNKNOWN_OPCODE: u16 = 4001;
    pub(crate) const DECODE_ERROR: u16 = 4002;
    pub(crate) const NOT_AUTHENTICATED: u16 = 4003;
    pub(crate) const AUTHENTICATION_FAILED: u16 = 4004;
    pub(crate) const ALREADY_AUTHENTICATED: u16 = 4005;
    pub(crate) const INVALID_SEQ: u16 = 4007;
    pub(crate) const RATE_LIMITED: u16 = 4008;
    pub(crate) const SESSION_TIMED_OUT: u16 = 4009;
    pub(crate) const INVALID_SHARD: u16 = 4010;
    pub(crate) const INVALID_API_VERSION: u16 = 4012;
    pub(crate) const INVALID_INTENTS: u16 = 4013;
    pub(crate) const DISALLOWED_INTENTS: u16 = 4014;

    /// What Discord says beside a code.
    pub(crate) fn reason(code: u16) -> &'static str {
        match code {
            UNKNOWN_ERROR => "Unknown error.",
            UNKNOWN_OPCODE => "Unknown opcode.",
            DECODE_ERROR => "Error while decoding payload.",
            NOT_AUTHENTICATED => "Not authenticated.",
            AUTHENTICATION_FAILED => "Authentication failed.",
            ALREADY_AUTHENTICATED => "Already authenticated.",
            INVALID_SEQ => "Invalid seq.",
            RATE_LIMITED => "Rate limited.",
            SESSION_TIMED_OUT => "Session timed out.",
            INVALID_SHARD => "Invalid shard.",
            INVALID_API_VERSION => "Invalid API version.",
            INVALID_INTENTS => "Invalid intent(s).",
            DISALLOWED_INTENTS => "Disallowed intent(s).",
            _ => "",
        }
    }

    /// Whether the session ends with a connection that the gateway closes so: its client has to begin a new one, or
    /// can't come back at all (the table's column "Reconnect", and the words of 4007 and 4009).
    pub(crate) fn ends_session(code: u16) -> bool {
        matches!(code, AUTHENTICATION_FAILED | INVALID_SEQ | SESSION_TIMED_OUT | 4010..=4014)
    }
}

/// A payload that is no event (Payload Structure: "s and t are null when op is not 0").
pub(crate) fn control(opcode: u64, data: Value) -> String {
    json!({ "t": null, "s": null, "op": opcode, "d": data }).to_string()
}

pub(crate) fn dispatch(name: &str, sequence: u64, data: &Value) -> String {
    json!({ "t": name, "s": sequence, "op": opcode::DISPATCH, "d": data }).to_string()
}

/// The one zlib stream of a connection whose client asked for `compress=zlib-stream` (Transport Compression).
///
/// Nothing becomes smaller: blocks may be stored as they are (RFC 1951, 3.2.4), and clients inflate these too.
#[derive(Debug, Default)]
pub(crate) struct ZlibStream {
    begun: bool,
}

impl ZlibStream {
    pub(crate) fn pack(&mut self, payload: &str) -> Vec<u8> {
        let mut packed = Vec::with_capacity(payload.len() + 16);
        if !self.begun {
            self.begun = true;
            packed.extend([0x78, 0x01]); // RFC 1950, 2.2
        }
        for block in payload.as_bytes().chunks(usize::from(u16::MAX)) {
            let length = u16::try_from(block.len()).expect("chunks are no longer than that");
            packed.push(0);
            packed.extend(length.to_le_bytes());
            packed.extend((!length).to_le_bytes());
            packed.extend(block);
        }
        // zlib-stream: a message ends in "the 4-byte Z_SYNC_FLUSH suffix", which is an empty stored block.
        packed.extend([0, 0, 0, 0xff, 0xff]);
        packed
    }
}
