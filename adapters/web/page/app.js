// Puts the page together: which conversation is open, what comes from the server, what the keyboard does.

import * as api from "./api.js";
import { createComposer } from "./composer.js";
import { createConversations } from "./conversations.js";
import { byId, element, icon } from "./dom.js";
import { showEmpty } from "./empty.js";
import { createFilesPanel } from "./files-panel.js";
import { createLightbox } from "./lightbox.js";
import { askForToken, hasLinkSecret, takeLinkSecret } from "./login.js";
import { setUpTheme } from "./look.js";
import { createModelPicker } from "./model-picker.js";
import { createNotifier } from "./notify.js";
import { createOutbox } from "./outbox.js";
import { follow } from "./stream.js";
import { createTimeline } from "./timeline.js";

const LAST = "satchel.conversation";
const SPOKEN_AT_MOST = 1200;
const QUIET_MS = 1200;

const announcer = byId("announcer");
const connection = byId("connection");
let conversation = null;
let events = null;
let loaded = false;
// The turn that is to be shown once it is there.
let target = null;
let running = null;
let connectionTimer = 0;

const conversations = createConversations({ open, removed, announce });
const outbox = createOutbox({
  changed: showWhetherEmpty,
  sent: conversations.refreshSoon,
});
const notifier = createNotifier();
const composer = createComposer({ send, stop, earlier: () => timeline.earlierTexts() });
const timeline = createTimeline({
  openPicture: (file) => openPicture(file),
  resend: (command) => send(conversation, command, []),
  retry,
  retryAsItWas,
  loadOlder,
  answered(words) {
    announce(words.length > SPOKEN_AT_MOST ? `${words.slice(0, SPOKEN_AT_MOST)} …` : words || "The reply is complete.");
    conversations.refreshSoon();
    modelPicker.refresh();
    notifier.answered(words);
  },
  runs(turn) {
    notifier.runs(turn !== null);
    if (turn && !running) announce("Satchel is working on it.");
    running = turn;
    composer.setRunning(turn !== null);
  },
});
const openPicture = createLightbox(timeline.pictures);
const filesPanel = createFilesPanel(openPicture);
const modelPicker = createModelPicker((name) => send(conversation, `/model ${name}`, []));

function send(to, text, uploads) {
  // An order to stop doesn't wait behind messages that are still being uploaded.
  if (running && text.trim() === "/stop" && uploads.length === 0) {
    stop();
    return;
  }
  timeline.toEnd();
  outbox.add(to, text, uploads);
}

async function stop() {
  if (!running) return;
  announce("Stopping.");
  try {
    await api.send(conversation, { key: api.newId(), text: "/stop", uploads: [] });
  } catch (problem) {
    composer.complain(`Stopping failed. ${problem.message}`);
  }
}

// Answers the last turn once more. The events bring the new one.
async function retry(turn, text) {
  await api.retryTurn(conversation, turn, text);
  announce("Trying again.");
  timeline.toEnd();
}

async function retryAsItWas(turn) {
  composer.complain("");
  try {
    await retry(turn);
  } catch (problem) {
    composer.complain(`It could not be tried again. ${problem.message}`);
  }
}

async function loadOlder(before, limit) {
  try {
    const page = await api.olderTurns(conversation, before, limit);
    outbox.settled(page.turns);
    return page;
  } catch (problem) {
    composer.complain(`Older messages could not be loaded. ${problem.message}`);
    return null;
  }
}

// Opens a conversation, at one of its turns if that is named.
function open(id, turn = null) {
  target = turn;
  if (id === conversation) {
    if (loaded) showTarget();
    return;
  }
  events?.end();
  conversation = id;
  loaded = false;
  running = null;
  notifier.forget();
  remember(id);
  if (addressed()?.id !== id) history.pushState(null, "", `#/${id}`);
  timeline.clear();
  composer.open(id);
  composer.setRunning(false);
  outbox.open(id);
  conversations.setCurrent(id);
  filesPanel.setConversation(id);
  modelPicker.setConversation(id);
  showWhetherEmpty();
  listen();
  // On a touch screen a focus would bring up the keyboard over half of the page.
  if (matchMedia("(pointer: fine)").matches) composer.focus();
}

function listen() {
  events = follow(conversation, {
    snapshot(snapshot, askedAt) {
      loaded = true;
      timeline.snapshot(snapshot);
      outbox.settled(snapshot.turns, askedAt);
      showWhetherEmpty();
      showTarget();
    },
    turn(turn) {
      timeline.turn(turn);
      outbox.settled([turn]);
      showWhetherEmpty();
      if (turn.state !== "done") conversations.refreshSoon();
    },
    live: timeline.live,
    blocks: timeline.blocks,
    tool: timeline.tool,
    gone: timeline.gone,
    connection: showConnection,
    awaitsAnswer: () => running !== null,
    lockedOut: unlock,
  });
}

// Forgets what was being written to a conversation that is deleted.
function removed(id) {
  composer.forget(id);
  outbox.forget(id);
}

// Goes to the turn that the address names.
async function showTarget() {
  if (target === null) return;
  const wanted = target;
  target = null;
  if ((await timeline.reveal(wanted)) === false) announce("This message is not here any more.");
}

function showConnection(state) {
  clearTimeout(connectionTimer);
  if (state === "open") {
    if (!connection.hidden) announce("Connected again.");
    connection.hidden = true;
    conversations.refresh();
    loadCommands();
    outbox.connected();
    return;
  }
  const show = () => {
    if (!connection.hidden && connection.dataset.state === state) return;
    const lost = state === "lost";
    connection.replaceChildren(
      element("span", { class: "connection-dot", "aria-hidden": "true" }),
      element("span", {}, "Reconnecting…"),
      ...(lost ? [element("button", { type: "button", class: "quiet-button", on: { click: () => events.again() } }, "Try now")] : []),
    );
    connection.dataset.state = state;
    connection.hidden = false;
  };
  // What is over in a moment needs no words, on the first connection.
  if (loaded) show();
  else connectionTimer = setTimeout(show, QUIET_MS);
}

// With another configuration the server has other commands, and it was started again for it.
async function loadCommands() {
  try {
    const commands = await api.commands();
    composer.setCommands(commands);
    modelPicker.setCommands(commands);
  } catch {
    // Commands work without being completed.
  }
}

function showWhetherEmpty() {
  byId("empty").hidden = !(loaded && timeline.isEmpty && outbox.isEmpty);
  timeline.settle();
}

function announce(words) {
  announcer.textContent = words;
}

function remember(id) {
  try {
    localStorage.setItem(LAST, id);
  } catch {
    // Without storage the newest conversation is opened the next time.
  }
}

// The conversation that the address names, and its turn, as in `#/holiday` and `#/holiday/01a2…`.
function addressed() {
  const [, id, turn] = location.hash.match(/^#\/([A-Za-z0-9_-]{1,64})(?:\/([0-9a-f-]{36}))?$/) ?? [];
  return id ? { id, turn: turn ?? null } : null;
}

function remembered() {
  if (addressed()) return addressed();
  try {
    const id = localStorage.getItem(LAST);
    return id && { id, turn: null };
  } catch {
    return null;
  }
}

let unlocking = null;

// The server wants a token: asks for it once, however many requests were refused, and goes on where it stood.
function unlock() {
  unlocking ??= letIn().finally(() => (unlocking = null));
  return unlocking;
}

async function letIn() {
  await askForToken();
  const wasOpen = conversation !== null;
  await start();
  if (wasOpen) {
    events?.end();
    listen();
  }
}

let linkSecret = takeLinkSecret();
let linkRefusals = 0;

// How often a server that can't check a link is asked again.
const MAX_LINK_REFUSALS = 3;

// Exchanges the secret of a login link for a login; the answer is why that could not be done. Throws what may pass.
async function useLink() {
  if (!linkSecret) return null;
  try {
    await api.loginByLink(linkSecret);
    linkSecret = null;
    return null;
  } catch (problem) {
    // A right link is always taken, so who is told to wait had a wrong one.
    const mayPass = problem.passes && problem.status !== 429;
    if (problem.status !== 0 && mayPass) linkRefusals += 1;
    if (mayPass && linkRefusals < MAX_LINK_REFUSALS) throw problem;
    linkSecret = null;
    return problem.message;
  }
}

let starting = null;

// Asks who we are to the server, until it answers; then opens what was open the last time.
function start() {
  starting ??= begin().finally(() => (starting = null));
  return starting;
}

async function begin() {
  let session = null;
  let reason = "";
  for (let tries = 0; session === null; tries += 1) {
    try {
      reason = (await useLink()) ?? reason;
      session = await api.session();
    } catch {
      showConnection("lost");
      await new Promise((resolve) => setTimeout(resolve, Math.min(500 * (tries + 1), 4000)));
    }
  }
  if (!session.authorized) {
    await askForToken(reason);
    session = await api.session();
  }
  clearTimeout(connectionTimer);
  connection.hidden = true;
  composer.setLimits(session.limits);
  modelPicker.setSession(session);
  byId("version").textContent = session.version ? `Satchel ${session.version}` : "";
  byId("open-settings").hidden = !session.owner;
  showEmpty(session, composer.suggest);
  await conversations.refresh();
  if (conversation === null) {
    const { id, turn } = remembered() ?? { id: conversations.latest ?? api.newId(), turn: null };
    if (!addressed()) history.replaceState(null, "", `#/${id}`);
    open(id, turn);
  }
}

function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.defaultPrevented) return;
  if (event.key === "Escape") {
    if (!conversations.close()) stop();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey) {
    const steps = { n: conversations.openNew, s: conversations.search, a: composer.attach, arrowup: () => conversations.step(-1), arrowdown: () => conversations.step(1) };
    // With Alt some systems make another sign of a letter; its key is then told by its place.
    const name = /^[a-z]$/i.test(event.key) ? event.key : event.code.replace(/^Key/, "");
    const step = steps[name.toLowerCase()];
    if (!step) return;
    event.preventDefault();
    step();
  } else if (!event.ctrlKey && !event.metaKey && !isWriting(event.target)) {
    if (event.key === "?") byId("shortcuts").showModal();
    else if (event.key === "/") composer.focus();
    else return;
    event.preventDefault();
  }
});

addEventListener("hashchange", () => {
  // Another login link, in a page that is open: it begins with it.
  if (hasLinkSecret()) return location.reload();
  const named = addressed();
  if (named) open(named.id, named.turn);
});
// Bytes that are on their way are lost when the page goes.
addEventListener("beforeunload", (event) => {
  if (composer.uploads || outbox.uploads) event.preventDefault();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  composer.focus();
});
byId("show-shortcuts").append(icon("keyboard"));
byId("show-shortcuts").addEventListener("click", () => byId("shortcuts").showModal());
byId("open-settings").append(icon("settings"));
byId("to-latest").prepend(icon("arrowDown"));
setUpTheme();
api.onLockedOut(unlock);
start();
