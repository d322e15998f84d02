// Talks to the server's HTTP API and turns what goes wrong into words.

import { keepProof, proofHeaders } from "./login-proof.js";

// What the server, or the way to it, had against a request. `status` 0: it was not reached.
export class Problem extends Error {
  constructor(status, code, words) {
    super(words);
    this.status = status;
    this.code = code;
  }

  // Whether the same request may do better later.
  get passes() {
    return this.status === 0 || this.code === "broken_off" || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

const UNREACHED = "Satchel can't be reached.";
const PATIENCE_MS = 30_000;

// What is done when the server wants a token that it doesn't get.
let lockedOut = () => {};

export function onLockedOut(listener) {
  lockedOut = listener;
}

export function problemOf(status, body) {
  if (status === 0) return new Problem(0, "unreached", UNREACHED);
  let told = {};
  try {
    told = JSON.parse(body) ?? {};
  } catch {
    // A proxy in between answers in its own words, which are not for people.
  }
  // A login that failed is the business of who tried it.
  if (status === 401 && !["wrong_token", "invalid_link"].includes(told.code)) lockedOut();
  return new Problem(status, told.code ?? "", told.detail ?? told.title ?? `The server answered with ${status}.`);
}

export async function call(method, path, body, signal = null, patience = PATIENCE_MS) {
  let response;
  let text;
  try {
    response = await fetch(path, {
      method,
      headers: { ...proofHeaders(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.any([AbortSignal.timeout(patience), ...(signal ? [signal] : [])]),
    });
    text = await response.text();
  } catch {
    throw problemOf(0, "");
  }
  if (!response.ok) throw problemOf(response.status, text);
  return text ? JSON.parse(text) : null;
}

export const session = () => call("GET", "/api/session");
export const login = (token) => logIn({ token });
export const loginByLink = (link) => logIn({ link });

// The answer sets the cookie, and has what goes along with it. It is empty where no login is needed.
async function logIn(credentials) {
  const login = await call("POST", "/api/login", credentials);
  if (login) keepProof(login.proof);
}

// The conversations, or the archived ones; `before` is the last turn of the last one that is known.
export function conversations({ archived = false, before } = {}) {
  const parameters = new URLSearchParams({ limit: "60" });
  if (archived) parameters.set("archived", "true");
  if (before) parameters.set("before", before);
  return call("GET", `/api/conversations?${parameters}`);
}

// `before`: the turn of the last hit that is known; `signal` ends the request.
export function search(words, { before, signal } = {}) {
  const parameters = new URLSearchParams({ q: words });
  if (before) parameters.set("before", before);
  return call("GET", `/api/search?${parameters}`, undefined, signal);
}

export const commands = async () => (await call("GET", "/api/commands")).commands;

const conversationPath = (conversation) => `/api/conversations/${encodeURIComponent(conversation)}`;

export const conversation = (conversation) => call("GET", conversationPath(conversation));

// `change`: any of name, pinned, archived.
export const changeConversation = (conversation, change) => call("PATCH", conversationPath(conversation), change);

export const forgetConversation = (conversation) => call("DELETE", conversationPath(conversation));

// `filters`: kind, sender, since, until, and the number of the last file that is known as `before`; `signal` ends the request.
export function files(conversation, filters, signal) {
  const parameters = new URLSearchParams({ limit: "60" });
  for (const [name, value] of Object.entries(filters)) if (value) parameters.set(name, value);
  return call("GET", `${conversationPath(conversation)}/files?${parameters}`, undefined, signal);
}

export const forgetFile = (conversation, file) => call("DELETE", `${conversationPath(conversation)}/files/${encodeURIComponent(file)}`);

export const olderTurns = (conversation, before, limit = 30) =>
  call("GET", `${conversationPath(conversation)}/turns?before=${encodeURIComponent(before)}&limit=${limit}`);

export const send = (conversation, { key, text, uploads }) =>
  call("POST", `${conversationPath(conversation)}/messages`, { key, text, uploads, edit_of: null });

// Answers the messages of the last turn once more, the last of them with another text if there is one.
export const retryTurn = (conversation, turn, text) =>
  call("POST", `${conversationPath(conversation)}/turns/${encodeURIComponent(turn)}/retry`, text === undefined ? {} : { text });

export const eventsPath = (conversation) => `${conversationPath(conversation)}/events`;

// Uploads a file. fetch can't tell how far an upload is, so this is the one use of XMLHttpRequest.
export function upload(conversation, file, name, onProgress) {
  const request = new XMLHttpRequest();
  const result = new Promise((resolve, reject) => {
    request.open("POST", `${conversationPath(conversation)}/uploads?filename=${encodeURIComponent(name)}`);
    for (const [name, value] of Object.entries(proofHeaders())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded));
    request.addEventListener("load", () => {
      if (request.status === 201 || request.status === 200) resolve(JSON.parse(request.responseText));
      else reject(problemOf(request.status, request.responseText));
    });
    request.addEventListener("error", () => reject(problemOf(0, "")));
    request.addEventListener("abort", () => reject(new Problem(0, "cancelled", "Cancelled.")));
    request.send(file);
  });
  return { result, abort: () => request.abort() };
}

// Something unguessable of the letters that ids may have. `crypto.randomUUID` is missing on plain-http addresses.
export function newId(bytes = 15) {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return btoa(String.fromCharCode(...random)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
