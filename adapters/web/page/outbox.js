// Messages that are on their way: each waits for its uploads, is sent once under its own key, and stays until it is
// seen among the turns. What is here outlives a reload.

import * as api from "./api.js";
import { bubble } from "./bubble.js";
import { byId, element, icon } from "./dom.js";
import { uploadRow } from "./tray.js";
import { discard, isLost, isUnderWay, release, retry, storedUpload } from "./uploads.js";

const PAUSES_MS = [800, 2000, 5000];

// What the server says of uploads that it doesn't know any more.
const FORGOTTEN = ["upload_expired", "unknown_upload"];

// `actions`: changed() after anything was shown or gone, sent() once the server has a message.
export function createOutbox(actions) {
  const place = byId("outbox");
  const messages = new Map();
  const seen = new Set();
  let open = null;

  const storageKey = (conversation) => `satchel.outbox.${conversation}`;

  function of(conversation) {
    if (!messages.has(conversation)) messages.set(conversation, restore(conversation));
    return messages.get(conversation);
  }

  function restore(conversation) {
    let stored = [];
    try {
      stored = JSON.parse(localStorage.getItem(storageKey(conversation)) ?? "[]");
    } catch {
      // Nothing is kept where storage is switched off.
    }
    return stored.map(({ key, text, uploads, lost }) => {
      const message = newMessage(conversation, key, text, uploads.map((result) => storedUpload(conversation, result)));
      if (lost.length > 0) {
        message.state = "failed";
        message.reason = `The page was closed before ${lost.join(", ")} had been uploaded.`;
        message.lost = lost;
      }
      return message;
    });
  }

  function keep(conversation) {
    const unsent = of(conversation).filter((message) => message.state !== "sent");
    const written = unsent.map(({ key, text, uploads, lost }) => ({
      key,
      text,
      uploads: uploads.filter((upload) => upload.result).map((upload) => upload.result),
      lost: [...lost, ...uploads.filter((upload) => !upload.result).map((upload) => upload.name)],
    }));
    try {
      if (written.length > 0) localStorage.setItem(storageKey(conversation), JSON.stringify(written));
      else localStorage.removeItem(storageKey(conversation));
    } catch {
      // A full or missing storage only means that a reload forgets.
    }
  }

  function newMessage(conversation, key, text, uploads) {
    return { conversation, key, text, uploads, lost: [], state: "uploading", reason: null, turn: null, tries: 0, timer: 0, seen: false, view: null };
  }

  function add(conversation, text, uploads) {
    const message = newMessage(conversation, api.newId(), text, uploads);
    of(conversation).push(message);
    watch(message);
    advance(conversation);
  }

  function watch(message) {
    for (const upload of message.uploads) {
      upload.subscribe(() => {
        if (upload.state === "sending" && upload.loaded > 0) return;
        advance(message.conversation);
      });
    }
  }

  // Sends what can be sent, in the order in which it was written. One that failed doesn't hold back the others.
  function advance(conversation) {
    for (const message of of(conversation)) {
      if (message.state === "sent" || message.state === "failed") continue;
      if (message.state === "uploading") {
        const lost = message.uploads.filter(isLost);
        if (lost.length > 0) {
          fail(message, lost.map((upload) => `${upload.name}: ${upload.reason}`).join(" "));
          continue;
        }
        if (!message.uploads.some(isUnderWay)) post(message);
      }
      // Later ones wait for this one.
      break;
    }
    keep(conversation);
    if (conversation === open) render();
  }

  async function post(message) {
    message.state = "sending";
    message.reason = null;
    try {
      const uploads = message.uploads.map((upload) => upload.result.upload);
      const { turn } = await api.send(message.conversation, { key: message.key, text: message.text, uploads });
      message.state = "sent";
      message.turn = turn;
      message.sentAt = performance.now();
      if (message.seen || seen.has(turn)) remove(message);
      actions.sent();
    } catch (problem) {
      postFailed(message, problem);
    }
    advance(message.conversation);
  }

  function postFailed(message, problem) {
    if (FORGOTTEN.includes(problem.code) && message.tries < PAUSES_MS.length) {
      message.tries += 1;
      uploadAnew(message, problem);
    } else if (problem.passes && message.tries < PAUSES_MS.length) {
      message.state = "sending";
      message.reason = problem.message;
      message.timer = setTimeout(() => again(message), PAUSES_MS[message.tries]);
      message.tries += 1;
    } else {
      fail(message, problem.message);
      message.unreached = problem.passes;
    }
  }

  // The server has forgotten the uploads; where the files are still at hand they are uploaded once more.
  function uploadAnew(message, problem) {
    message.state = "uploading";
    for (const upload of message.uploads) {
      if (upload.file) {
        retry(upload);
      } else {
        upload.state = "refused";
        upload.reason = problem.message;
        upload.result = null;
      }
    }
  }

  function again(message) {
    if (message.state === "sent" || !of(message.conversation).includes(message)) return;
    clearTimeout(message.timer);
    message.timer = 0;
    message.uploads.filter(isLost).forEach(retry);
    message.state = "uploading";
    message.reason = null;
    advance(message.conversation);
  }

  function tryAnew(message) {
    message.tries = 0;
    again(message);
  }

  function fail(message, reason) {
    message.state = "failed";
    message.reason = reason;
    message.seen = false;
  }

  function withoutLost(message) {
    message.uploads.filter((upload) => !upload.result).forEach(discard);
    message.uploads = message.uploads.filter((upload) => upload.result);
    message.lost = [];
    tryAnew(message);
  }

  function remove(message) {
    const list = of(message.conversation);
    const at = list.indexOf(message);
    if (at >= 0) list.splice(at, 1);
    message.view?.stops.forEach((stop) => stop());
    message.view?.root.remove();
    message.uploads.forEach(release);
    keep(message.conversation);
  }

  function giveUp(message) {
    message.uploads.forEach(discard);
    remove(message);
    advance(message.conversation);
    actions.changed();
  }

  function render() {
    const shown = of(open).filter((message) => !message.seen);
    const roots = shown.map((message) => (message.view ??= pendingView(message)).root);
    shown.forEach(showState);
    for (const child of [...place.children]) if (!roots.includes(child)) child.remove();
    roots.forEach((root, at) => {
      if (place.children[at] !== root) place.insertBefore(root, place.children[at] ?? null);
    });
    actions.changed();
  }

  function pendingView(message) {
    const rows = message.uploads.map((upload) => uploadRow(upload, null));
    const state = element("div", { class: "pending-state" });
    const root = element(
      "article",
      { class: "turn pending" },
      element(
        "div",
        { class: "said" },
        element(
          "div",
          { class: "message" },
          element("h2", { class: "sr-only" }, "You, not sent yet"),
          rows.length ? element("ul", { class: "tray tray-sent" }, ...rows.map((one) => one.row)) : null,
          message.text ? bubble(message.text) : null,
          state,
        ),
      ),
    );
    return { root, state, stops: rows.map((one) => one.stop), shown: null };
  }

  function showState(message) {
    const { root, state } = message.view;
    const now = `${message.state}${message.reason}`;
    if (message.view.shown === now) return;
    message.view.shown = now;
    root.classList.toggle("pending-failed", message.state === "failed");
    const button = (words, iconName, listener) =>
      element("button", { type: "button", class: "quiet-button", on: { click: listener } }, ...(iconName ? [icon(iconName)] : []), words);
    if (message.state === "failed") {
      const lost = message.lost.length > 0 || message.uploads.some((upload) => upload.state === "refused");
      state.replaceChildren(
        element("p", { class: "pending-reason", role: "alert" }, icon("warning"), element("span", {}, `Not sent. ${message.reason}`)),
        lost && (message.text || message.uploads.some((upload) => upload.result))
          ? button("Send without the failed files", null, () => withoutLost(message))
          : button("Try again", "retry", () => tryAnew(message)),
        button("Discard", null, () => giveUp(message)),
      );
    } else {
      const words = { uploading: "Sent once the files are uploaded", sending: message.reason ? `${message.reason} Trying again.` : "Sending", sent: "Sent" }[message.state];
      state.replaceChildren(element("p", { class: "pending-note" }, icon(message.state === "sent" ? "check" : "clock"), words));
    }
  }

  const signature = (text, names) => `${text.trim()}\n${names.join("\n")}`;

  return {
    add,
    open(conversation) {
      open = conversation;
      place.replaceChildren();
      advance(conversation);
    },
    // Drops what was to be sent to a conversation that is gone.
    forget(conversation) {
      for (const message of [...of(conversation)]) {
        clearTimeout(message.timer);
        giveUp(message);
      }
    },
    // What waits for a connection goes as soon as there is one.
    connected() {
      if (open === null) return;
      const unreached = (message) => message.timer || (message.state === "failed" && message.unreached);
      of(open).filter(unreached).forEach(tryAnew);
    },
    // Lets go of what is among the turns now. A snapshot that was asked for after a message was taken has the last word.
    settled(turns, snapshotAt = null) {
      turns.forEach((turn) => seen.add(turn.id));
      const fresh = new Set();
      for (const message of turns.flatMap((turn) => turn.messages)) {
        if (seen.has(message.id)) continue;
        seen.add(message.id);
        fresh.add(signature(message.text, message.files.map((one) => one.filename)));
        if (message.key) fresh.add(message.key);
      }
      for (const message of [...of(open)]) {
        const known = message.state === "sent" && (seen.has(message.turn) || (snapshotAt !== null && message.sentAt < snapshotAt));
        const names = message.uploads.map((upload) => upload.result?.filename ?? upload.name);
        const fits = fresh.delete(message.key) || (message.state !== "failed" && fresh.delete(signature(message.text, names)));
        if (known || (fits && message.state === "sent")) remove(message);
        else if (fits) message.seen = true;
      }
      render();
    },
    get isEmpty() {
      return open === null || of(open).length === 0;
    },
    get uploads() {
      return [...messages.values()].flat().some((message) => message.uploads.some(isUnderWay));
    },
  };
}
