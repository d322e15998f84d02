// The calls of the API about the running system and the logins.

import { call } from "../api.js";

// The checks reach out to models and platforms.
const CHECKS_PATIENCE_MS = 70_000;

const segment = encodeURIComponent;

export const overview = () => call("GET", "/api/system");
export const runChecks = async () => (await call("POST", "/api/system/checks", {}, null, CHECKS_PATIENCE_MS)).findings;
export const settings = async () => (await call("GET", "/api/system/settings")).settings;
export const people = () => call("GET", "/api/system/people");
export const outbox = async () => (await call("GET", "/api/system/outbox")).parts;
export const decidePairing = (code, approve) => call("POST", `/api/system/pairings/${segment(code)}`, { approve });
export const revoke = ({ channel, id }) => call("DELETE", `/api/system/people/${segment(channel)}/${segment(id)}`);
export const discard = (part) => call("DELETE", `/api/system/outbox/${segment(part)}`);
export const logins = async () => (await call("GET", "/api/logins")).logins;
export const endLogin = ({ id }) => call("DELETE", `/api/logins/${segment(id)}`);
export const resend = (part, key) => call("POST", `/api/system/outbox/${segment(part)}/resend`, { key });
