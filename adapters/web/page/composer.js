// The place where a message is written: words, files from everywhere, a draft for each conversation.

import { byId, icon, tell } from "./dom.js";
import { count, someNames } from "./format.js";
import { createRecall } from "./recall.js";
import { createSuggestions } from "./suggestions.js";
import { uploadRow } from "./tray.js";
import { discard, isLost, isUnderWay, newUpload, refusedUpload, storedUpload } from "./uploads.js";

const KEEP_AFTER_MS = 250;

// `actions`: send(conversation, text, uploads), stop(), earlier(). `limits` says how large and how many files may be.
export function createComposer(actions) {
  const form = byId("composer");
  const field = byId("message");
  const tray = byId("tray");
  const sendButton = byId("send");
  const stopButton = byId("stop");
  const picker = byId("file-picker");
  const camera = byId("camera-picker");
  const complaint = byId("complaint");
  const suggestions = createSuggestions(field);
  const recall = createRecall(actions.earlier);
  const drafts = new Map();
  // Files that were added before a conversation is open: a slow server takes a moment.
  const early = [];
  let conversation = null;
  let limits = { file_bytes: null, files_per_message: null };
  let keeping = 0;
  let rows = new Map();

  byId("attach").append(icon("clip"));
  byId("camera").append(icon("camera"));
  sendButton.append(icon("arrowUp"));
  stopButton.append(document.createElement("span"));
  const narrow = matchMedia("(max-width: 40rem)");
  const showPlaceholder = () => (field.placeholder = narrow.matches ? "Write a message" : "Write a message, or drop files anywhere");
  narrow.addEventListener("change", showPlaceholder);
  showPlaceholder();

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  field.addEventListener("keydown", (event) => {
    if (suggestions.takeKey(event)) return;
    const recalled = recall(event, field.value);
    if (recalled !== null) {
      event.preventDefault();
      write(recalled);
    }
    // Enter also ends a word that is being composed in many scripts; it is not meant for us then.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      send();
    }
  });
  field.addEventListener("input", () => {
    draft().text = field.value;
    fit();
    showButtons();
    keepSoon();
  });
  field.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) {
      event.preventDefault();
      addFiles([...event.clipboardData.files]);
    }
  });
  byId("attach").addEventListener("click", () => picker.click());
  byId("camera").addEventListener("click", () => camera.click());
  for (const input of [picker, camera]) {
    input.addEventListener("change", () => {
      addFiles([...input.files]);
      // The same file may be chosen again.
      input.value = "";
      field.focus();
    });
  }
  stopButton.addEventListener("click", () => actions.stop());
  addEventListener("pagehide", keep);

  const storageKey = (id) => `satchel.draft.${id}`;

  function draft() {
    if (!drafts.has(conversation)) drafts.set(conversation, restore(conversation));
    return drafts.get(conversation);
  }

  function restore(id) {
    try {
      const { text = "", uploads = [] } = JSON.parse(localStorage.getItem(storageKey(id)) ?? "{}");
      return { text, uploads: uploads.map((result) => storedUpload(id, result)) };
    } catch {
      return { text: "", uploads: [] };
    }
  }

  function keepSoon() {
    clearTimeout(keeping);
    keeping = setTimeout(keep, KEEP_AFTER_MS);
  }

  function keep() {
    clearTimeout(keeping);
    if (conversation === null) return;
    const { text, uploads } = draft();
    const stored = uploads.map((upload) => upload.result).filter(Boolean);
    try {
      if (text || stored.length) localStorage.setItem(storageKey(conversation), JSON.stringify({ text, uploads: stored }));
      else localStorage.removeItem(storageKey(conversation));
    } catch {
      // A full or missing storage only means that a reload forgets.
    }
  }

  function send() {
    const { text, uploads } = draft();
    const going = uploads.filter((upload) => !isLost(upload));
    if (!text.trim() && going.length === 0) return;
    if (conversation === null) {
      tell(complaint, "Still connecting. Your message stays here; send it in a moment.");
      return;
    }
    if (uploads.some((upload) => upload.state === "failed")) {
      tell(complaint, "A file could not be uploaded. Try it again or remove it, then send.");
      return;
    }
    uploads.filter(isLost).forEach(discard);
    drafts.set(conversation, { text: "", uploads: [] });
    tell(complaint, "");
    show();
    keep();
    field.focus();
    actions.send(conversation, text, going);
  }

  // Takes files in: each is uploaded at once, and refused at once where that is known.
  function addFiles(files) {
    if (files.length === 0) return;
    if (conversation === null) {
      early.push(...files);
      tell(complaint, `Still connecting. ${count(early.length, "file is", "files are")} added in a moment.`);
      return;
    }
    const { uploads } = draft();
    const room = (limits.files_per_message ?? Infinity) - uploads.filter((upload) => !isLost(upload)).length;
    const taken = files.slice(0, Math.max(room, 0));
    tell(complaint, surplusWords(files.slice(taken.length)));
    for (const file of taken) add(newUpload(conversation, file, limits.file_bytes));
    showTray();
    showButtons();
  }

  function surplusWords(files) {
    if (files.length === 0) return "";
    const names = someNames(files.map((file) => file.name));
    const most = count(limits.files_per_message, "file goes", "files go");
    return `${count(files.length, "file was", "files were")} not added: ${names}. At most ${most} with one message; send ${files.length === 1 ? "it" : "the rest"} with the next.`;
  }

  function add(upload) {
    draft().uploads.push(upload);
    upload.subscribe(() => {
      if (upload.state !== "sending") {
        showButtons();
        keepSoon();
      }
    });
  }

  function remove(upload) {
    const { uploads } = draft();
    const at = uploads.indexOf(upload);
    if (at >= 0) uploads.splice(at, 1);
    discard(upload);
    tell(complaint, "");
    showTray();
    showButtons();
    keepSoon();
    field.focus();
  }

  function show() {
    field.value = draft().text;
    suggestions.close();
    fit();
    showTray();
    showButtons();
  }

  // Takes over what was typed and added before any conversation was open.
  function adoptEarly() {
    const { text, uploads } = drafts.get(null) ?? { text: "", uploads: [] };
    drafts.delete(null);
    const mine = draft();
    mine.text = [mine.text, text].filter(Boolean).join("\n");
    mine.uploads.push(...uploads);
    show();
    addFiles(early.splice(0));
    // It counts as typed here.
    if (text) field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  // Puts a text into the field, with the cursor behind it.
  function write(text) {
    draft().text = text;
    show();
    keepSoon();
    field.setSelectionRange(text.length, text.length);
  }

  function showTray() {
    const { uploads } = draft();
    for (const [upload, { row, stop }] of rows) {
      if (uploads.includes(upload)) continue;
      row.remove();
      stop();
      rows.delete(upload);
    }
    for (const upload of uploads) {
      if (!rows.has(upload)) rows.set(upload, uploadRow(upload, remove));
      tray.append(rows.get(upload).row);
    }
    tray.hidden = uploads.length === 0;
  }

  function showButtons() {
    const { text, uploads } = draft();
    const nothing = !text.trim() && !uploads.some((upload) => !isLost(upload));
    sendButton.disabled = nothing;
    const waits = uploads.some(isUnderWay);
    const label = waits ? "Send when the files are uploaded" : "Send";
    sendButton.setAttribute("aria-label", label);
    sendButton.title = `${label} (Enter)`;
  }

  // As high as its words, up to a limit that the style sets.
  function fit() {
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }

  listenForDrops(addFiles, (name) => {
    add(refusedUpload(conversation, name, "Folders can't be attached. Pack it into an archive first."));
    showTray();
  });

  return {
    open(id) {
      keep();
      const isFirst = conversation === null;
      conversation = id;
      tell(complaint, "");
      if (isFirst) adoptEarly();
      else show();
    },
    // Drops what was written to a conversation that is gone.
    forget(id) {
      drafts.delete(id);
      try {
        localStorage.removeItem(storageKey(id));
      } catch {
        // Without storage nothing was kept.
      }
      if (id === conversation) show();
    },
    setLimits(given) {
      limits = given;
    },
    setCommands: suggestions.setCommands,
    setRunning(running) {
      stopButton.hidden = !running;
    },
    // Puts words into the field for a person to go on with.
    suggest(text, attach) {
      write(text);
      field.focus();
      if (attach) picker.click();
    },
    focus: () => field.focus(),
    attach: () => picker.click(),
    complain: (words) => tell(complaint, words),
    get uploads() {
      return early.length > 0 || [...drafts.values()].some(({ uploads }) => uploads.some(isUnderWay));
    },
  };
}

// Files may be dropped anywhere on the page.
function listenForDrops(addFiles, refuseFolder) {
  const overlay = byId("drop");
  let depth = 0;
  const bringsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const leave = () => {
    depth = 0;
    overlay.hidden = true;
  };
  addEventListener("dragenter", (event) => {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    depth += 1;
    overlay.hidden = false;
  });
  addEventListener("dragover", (event) => {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("dragleave", (event) => {
    if (!bringsFiles(event)) return;
    depth -= 1;
    if (depth <= 0) leave();
  });
  addEventListener("drop", (event) => {
    leave();
    if (!bringsFiles(event)) return;
    event.preventDefault();
    const files = [];
    for (const item of event.dataTransfer.items) {
      if (item.kind !== "file") continue;
      const entry = item.webkitGetAsEntry?.();
      if (entry?.isDirectory) refuseFolder(entry.name);
      else if (item.getAsFile()) files.push(item.getAsFile());
    }
    addFiles(files);
  });
}
