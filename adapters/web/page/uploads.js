// Uploads files, at most three at a time, and tells of each how far it is.

import * as api from "./api.js";
import { size } from "./format.js";

const AT_ONCE = 3;
const TRIES = 5;

const waiting = [];
let running = 0;

// A file on its way: `state` is queued, sending, pausing, done, failed or refused. `subscribe` hears of every change.
export function newUpload(conversation, file, limit) {
  const listeners = new Set();
  const upload = {
    conversation,
    file,
    name: file.name || "file",
    bytes: file.size,
    mime: file.type,
    preview: /^image\/(png|jpeg|gif|webp|avif)$/.test(file.type) ? URL.createObjectURL(file) : null,
    state: "queued",
    loaded: 0,
    speed: 0,
    tries: 0,
    reason: null,
    result: null,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    changed() {
      for (const listener of [...listeners]) listener(upload);
    },
  };
  if (limit !== null && file.size > limit) {
    refuse(upload, `${upload.name} is ${size(file.size)}; the limit here is ${size(limit)}.`);
  } else {
    enqueue(upload);
  }
  return upload;
}

// A file that was uploaded before the page was loaded anew.
export function storedUpload(conversation, result) {
  return {
    conversation,
    file: null,
    name: result.filename,
    bytes: result.bytes,
    mime: result.mime,
    preview: null,
    state: "done",
    loaded: result.bytes,
    speed: 0,
    tries: 0,
    reason: null,
    result,
    subscribe: () => () => {},
    changed() {},
  };
}

// A thing that can't be uploaded at all, with the reason.
export function refusedUpload(conversation, name, reason) {
  const upload = storedUpload(conversation, { filename: name, bytes: null, mime: "" });
  upload.result = null;
  refuse(upload, reason);
  return upload;
}

export function isUnderWay(upload) {
  return ["queued", "sending", "pausing"].includes(upload.state);
}

export function isLost(upload) {
  return upload.state === "failed" || upload.state === "refused";
}

export function retry(upload) {
  if (!upload.file || isUnderWay(upload)) return;
  upload.tries = 0;
  upload.reason = null;
  upload.result = null;
  enqueue(upload);
}

// Ends it and lets go of what it holds.
export function discard(upload) {
  const at = waiting.indexOf(upload);
  if (at >= 0) waiting.splice(at, 1);
  clearTimeout(upload.pause);
  upload.state = "cancelled";
  upload.abort?.();
  release(upload);
}

// Frees the picture of it; the file itself goes with the upload.
export function release(upload) {
  if (upload.preview) URL.revokeObjectURL(upload.preview);
  upload.preview = null;
}

function refuse(upload, reason) {
  upload.state = "refused";
  upload.reason = reason;
  upload.changed();
}

function enqueue(upload) {
  upload.state = "queued";
  upload.loaded = 0;
  upload.speed = 0;
  waiting.push(upload);
  upload.changed();
  startNext();
}

function startNext() {
  while (running < AT_ONCE && waiting.length > 0) {
    running += 1;
    perform(waiting.shift()).finally(() => {
      running -= 1;
      startNext();
    });
  }
}

async function perform(upload) {
  upload.state = "sending";
  upload.tries += 1;
  upload.changed();
  const measure = speedometer();
  const sending = api.upload(upload.conversation, upload.file, upload.name, (loaded) => {
    upload.loaded = loaded;
    upload.speed = measure(loaded);
    upload.changed();
  });
  upload.abort = sending.abort;
  try {
    upload.result = await sending.result;
    upload.state = "done";
    upload.loaded = upload.bytes;
  } catch (problem) {
    if (upload.state === "cancelled") return;
    failed(upload, problem);
  } finally {
    upload.abort = null;
  }
  upload.changed();
}

// What may pass is tried again by itself, later and later; what was refused is not.
function failed(upload, problem) {
  upload.reason = problem.message;
  if (problem.status === 413) {
    upload.state = "refused";
  } else if (problem.passes && upload.tries < TRIES) {
    upload.state = "pausing";
    upload.pause = setTimeout(() => enqueue(upload), 500 * 2 ** upload.tries);
  } else {
    upload.state = "failed";
  }
}

// Bytes a second, smoothed, so that the number can be read.
function speedometer() {
  let speed = 0;
  let lastAt = performance.now();
  let lastLoaded = 0;
  return (loaded) => {
    const now = performance.now();
    const seconds = (now - lastAt) / 1000;
    if (seconds < 0.2) return speed;
    const current = (loaded - lastLoaded) / seconds;
    speed = speed === 0 ? current : speed * 0.7 + current * 0.3;
    lastAt = now;
    lastLoaded = loaded;
    return speed;
  };
}
