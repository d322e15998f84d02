// Keeps one conversation's events coming, whatever happens to the connection in between.

import * as api from "./api.js";
import { readEvents } from "./event-stream.js";

const PAUSES_MS = [250, 500, 1000, 2000, 4000];
const HIDDEN_FOR_MS = 60_000;
const EVENTS = ["snapshot", "turn", "live", "blocks", "tool", "gone"];

// Calls `handlers.snapshot`, `.turn`, … with what comes, and `handlers.connection` with "open", "connecting" or "lost".
// Each reconnect begins with a fresh snapshot, so nothing that was missed stays missed.
export function follow(conversation, handlers) {
  // Stops the connection; null while there is none.
  let stop = null;
  let timer = 0;
  let failures = 0;
  let ended = false;
  let hiddenTimer = 0;
  let openedAt = 0;

  function connect() {
    clearTimeout(timer);
    stop?.();
    openedAt = performance.now();
    stop = readEvents(api.eventsPath(conversation), { event, end: lost });
  }

  function event(name, data) {
    if (!EVENTS.includes(name)) return;
    if (name === "snapshot") {
      failures = 0;
      handlers.connection("open");
    }
    handlers[name](JSON.parse(data), openedAt);
  }

  function lost(status) {
    stop = null;
    if (status === 401) {
      handlers.lockedOut();
      return;
    }
    handlers.connection(failures === 0 ? "connecting" : "lost");
    failures += 1;
    const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1];
    clearTimeout(timer);
    timer = setTimeout(connect, pause * (0.8 + Math.random() * 0.4));
  }

  function again() {
    if (ended) return;
    failures = 0;
    handlers.connection("connecting");
    connect();
  }

  // A browser gives one server six connections, whatever the number of tabs: a tab that nobody sees lets go of its own.
  function visibility() {
    clearTimeout(hiddenTimer);
    if (document.hidden) {
      hiddenTimer = setTimeout(letGo, HIDDEN_FOR_MS);
    } else if (stop === null) {
      again();
    }
  }

  // Who waits for an answer is told in another tab too that it is ready.
  function letGo() {
    if (handlers.awaitsAnswer()) {
      hiddenTimer = setTimeout(letGo, HIDDEN_FOR_MS);
      return;
    }
    clearTimeout(timer);
    stop?.();
    stop = null;
  }

  document.addEventListener("visibilitychange", visibility);
  addEventListener("online", again);
  connect();
  return {
    again,
    end() {
      ended = true;
      clearTimeout(timer);
      clearTimeout(hiddenTimer);
      stop?.();
      document.removeEventListener("visibilitychange", visibility);
      removeEventListener("online", again);
    },
  };
}
