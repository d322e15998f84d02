// Reads a stream of events with fetch: EventSource can't send the header of a login.

import { proofHeaders } from "./login-proof.js";

// Calls `event(name, data)` with each event, and `end(status)` once no more will come; the status is that of a refusal, or 0.
// Answers with what stops it, after which nothing is called any more.
export function readEvents(path, { event, end }) {
  const control = new AbortController();
  read(path, control.signal, event)
    .catch(() => 0)
    .then((status) => {
      if (!control.signal.aborted) end(status);
    });
  return () => control.abort();
}

async function read(path, signal, event) {
  const response = await fetch(path, { headers: proofHeaders(), credentials: "same-origin", cache: "no-store", signal });
  if (!response.ok) return response.status;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return 0;
    // No end is in what was looked through before, but half of one may be.
    let from = Math.max(rest.length - 1, 0);
    let start = 0;
    rest += value;
    for (let at = rest.indexOf("\n\n", from); at >= 0; at = rest.indexOf("\n\n", from)) {
      if (signal.aborted) return 0;
      pass(rest.slice(start, at), event);
      start = at + 2;
      from = start;
    }
    rest = rest.slice(start);
  }
}

// Passes an event on. An error in one is reported, and the others still come.
function pass(frame, event) {
  let name = "";
  const data = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  if (!name || data.length === 0) return;
  try {
    event(name, data.join("\n"));
  } catch (error) {
    reportError(error);
  }
}
