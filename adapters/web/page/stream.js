// Keeps one conversation's events coming, whatever happens to the connection in between.

import * as api from "./api.js";

const PAUSES_MS = [250, 500, 1000, 2000, 4000];
const HIDDEN_FOR_MS = 60_000;
const EVENTS = ["snapshot", "turn", "live", "blocks", "tool", "gone"];

// Calls `handlers.snapshot`, `.turn`, … with what comes, and `handlers.connection` with "open", "connecting" or "lost".
// Each reconnect begins with a fresh snapshot, so nothing that was missed stays missed.
export function follow(conversation, handlers) {
  let source = null;
  let timer = 0;
  let failures = 0;
  let ended = false;
  let hiddenTimer = 0;
  let openedAt = 0;

  function connect() {
    clearTimeout(timer);
    source?.close();
    openedAt = performance.now();
    source = new EventSource(api.eventsPath(conversation));
    source.addEventListener("error", lost);
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        if (ended) return;
        if (name === "snapshot") {
          failures = 0;
          handlers.connection("open");
        }
        handlers[name](JSON.parse(event.data), openedAt);
      });
    }
  }

  async function lost() {
    source.close();
    if (ended) return;
    handlers.connection(failures === 0 ? "connecting" : "lost");
    failures += 1;
    const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1];
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try {
        // EventSource doesn't tell a refusal from a broken line; this question does.
        const session = await api.session();
        if (ended) return;
        if (session.authorized) connect();
        else handlers.lockedOut();
      } catch {
        if (!ended) lost();
      }
    }, pause * (0.8 + Math.random() * 0.4));
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
    } else if (source === null || source.readyState === EventSource.CLOSED) {
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
    source?.close();
    source = null;
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
      source?.close();
      document.removeEventListener("visibilitychange", visibility);
      removeEventListener("online", again);
    },
  };
}
