// The panel with the files of the open conversation: filtered, page by page, to open, to download and to forget.

import * as api from "./api.js";
import { isPicture } from "./attachments.js";
import { confirmForgetting } from "./dialogs.js";
import { byId, element, icon, iconButton, tell } from "./dom.js";
import { fileRow, moveInRows } from "./files-rows.js";
import { count } from "./format.js";

const KINDS = [["", "All kinds"], ["image", "Pictures"], ["audio", "Sound"], ["video", "Film"], ["other", "Documents and data"]];
const SENDERS = [["", "Everybody"], ["person", "You"], ["assistant", "Satchel"]];

// `openPicture(file, pictures)` shows a picture large, and steps through those that `pictures` yields.
export function createFilesPanel(openPicture) {
  const kind = choice("Kind", KINDS);
  const sender = choice("From", SENDERS);
  const first = date("Since");
  const last = date("Until");
  const status = element("p", { class: "files-status", role: "status" });
  const complaint = element("p", { class: "complaint", role: "alert", hidden: true });
  const list = element("ul", { class: "files-list", "aria-label": "Files" });
  const older = element("button", { type: "button", class: "quiet-button", hidden: true });
  const close = iconButton("Close the files", "close", () => dialog.close());
  const dialog = element(
    "dialog",
    { class: "files-panel", "aria-labelledby": "files-title" },
    element("div", { class: "files-head" }, element("h2", { id: "files-title" }, "Files"), close),
    element("form", { class: "files-filters", "aria-label": "Which files", on: { submit: (event) => event.preventDefault() } }, kind.label, sender.label, first.label, last.label),
    status,
    complaint,
    element("div", { class: "files-scroller" }, list, older),
  );
  const opener = byId("open-files");
  let conversation = null;
  let files = [];
  let more = false;
  let forgotten = "";
  // The request under way: another filter takes its place.
  let asking = new AbortController();

  document.body.append(dialog);
  opener.append(icon("folder"));
  // Until a conversation is open there are no files to list.
  opener.disabled = true;
  opener.addEventListener("click", show);
  older.addEventListener("click", loadOlder);
  list.addEventListener("keydown", moveInRows);
  for (const { field } of [kind, sender, first, last]) field.addEventListener("change", load);
  dialog.addEventListener("close", () => {
    asking.abort();
    list.replaceChildren();
  });

  function show() {
    for (const { field } of [kind, sender, first, last]) field.value = "";
    dialog.showModal();
    close.focus();
    load();
  }

  function filters() {
    return { kind: kind.field.value, sender: sender.field.value, since: midnight(first.field.value, 0), until: midnight(last.field.value, 1) };
  }

  function load() {
    files = [];
    more = false;
    forgotten = "";
    list.replaceChildren();
    return loadPage();
  }

  async function loadPage() {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    tell(complaint, "");
    older.hidden = true;
    list.setAttribute("aria-busy", "true");
    if (files.length === 0) status.textContent = "Loading…";
    try {
      const page = await api.files(conversation, { ...filters(), before: files.at(-1)?.number }, signal);
      if (signal.aborted) return;
      files = [...files, ...page.files];
      more = page.more;
      list.append(...page.files.map((file) => fileRow(file, { open, forget })));
      showStatus();
      older.textContent = "Show older files";
      older.hidden = !more;
    } catch (problem) {
      if (signal.aborted) return;
      status.textContent = "";
      tell(complaint, `The files could not be loaded. ${problem.message}`);
      older.textContent = "Try again";
      older.hidden = false;
    }
    list.removeAttribute("aria-busy");
  }

  // The button may be gone with its last page: the focus goes on to the first file that it brought.
  async function loadOlder() {
    const before = files.length;
    await loadPage();
    list.children[before]?.querySelector("button, a")?.focus();
  }

  function showStatus() {
    const filtered = Object.values(filters()).some(Boolean);
    const none = filtered ? "No file is of this kind, sender and time." : "No files here yet.";
    const some = more ? `The newest ${files.length} files` : `${count(files.length, "file", "files")}, newest first`;
    status.textContent = [forgotten, files.length === 0 ? none : some].filter(Boolean).join(" ");
  }

  function open(file) {
    openPicture(file, () => files.filter(isPicture));
  }

  function forget(file) {
    confirmForgetting(file, () => api.forgetFile(conversation, file.id), () => {
      const at = files.findIndex((one) => one.id === file.id);
      if (at < 0) return;
      files.splice(at, 1);
      list.children[at].remove();
      forgotten = `Forgot #${file.number}.`;
      showStatus();
      const next = list.children[Math.min(at, files.length - 1)];
      (next?.querySelector("[data-forget]") ?? close).focus();
    });
  }

  return {
    // Another conversation is open.
    setConversation(id) {
      conversation = id;
      opener.disabled = false;
      if (dialog.open) dialog.close();
    },
  };
}

function choice(label, options) {
  const field = element("select", { class: "files-field" }, ...options.map(([value, words]) => element("option", { value }, words)));
  return { field, label: labelled(label, field) };
}

function date(label) {
  const field = element("input", { type: "date", class: "files-field" });
  return { field, label: labelled(label, field) };
}

function labelled(label, field) {
  return element("label", { class: "files-filter" }, element("span", {}, label), field);
}

// The beginning of a day, or of one that many days later, where the person is.
function midnight(day, later) {
  if (!day) return null;
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later).getTime();
}
