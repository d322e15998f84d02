// Shows one turn: what was said, what is being done, and the answer part by part, patched where something changed.

import { filesView, refusedCard, waitingCard } from "./attachments.js";
import { bubble } from "./bubble.js";
import { element, icon, iconButton } from "./dom.js";
import { clock } from "./format.js";
import { createGrowingAnswer } from "./growing.js";
import { colourCode, copyText, prose, sayCopied } from "./prose.js";
import { earlierAnswer, editButton, retryButton } from "./retry.js";
import { usedToolsView } from "./tools.js";

const ENDINGS = {
  budget: "Stopped early: the turn reached its limit",
  cancelled: "Stopped",
  model_failed: "The model failed",
  failed: "It could not be done",
  crashed: "Gave up after three crashes",
};

const STATES = {
  pending: ["clock", "Queued"],
  sending: ["clock", "Sending"],
  waiting: ["clock", "Will be retried"],
  in_doubt: ["warning", "May have arrived; checking"],
  failed: ["warning", "Not delivered"],
};

// `actions`: openPicture(file), resend(command), retry(turn, text), retryAsItWas(turn).
export function createTurnView(actions) {
  const said = element("div", { class: "said" });
  const activity = element("div", { class: "activity", hidden: true });
  const used = element("div", { hidden: true });
  const answer = element("div", { class: "answer", hidden: true });
  const root = element("article", { class: "turn" }, said, activity, used, answer);
  const messages = new Map();
  const parts = new Map();
  const meta = element("div", { class: "meta", hidden: true });
  const answerName = element("h2", { class: "sr-only" }, "Satchel");
  answer.append(answerName, meta);
  let live = null;
  let turn = null;
  let usedTools = "";
  // Whether something of the answer was seen not to arrive as it should.
  let unusual = false;

  function update(next) {
    turn = next;
    root.dataset.state = turn.state;
    // The order to stop is told by the ending.
    const written = turn.messages.filter((message, at) => at === 0 || message.text?.trim() !== "/stop");
    const spoken = written.map((message, at) => ({ ...message, last: at === written.length - 1 }));
    const resend = (words) => actions.retry(turn.id, words);
    patchList(said, messages, spoken, (message) => messageView(message, actions.openPicture, resend));
    // The line of its tool shows a question with its buttons while the turn runs.
    const shown = turn.parts.filter((part) => part.kind !== "question" || turn.state === "done");
    const alone = shown.length === 1;
    // Tools that were used after a text stand behind it, the others above the answer. Sections are counted over all its texts.
    const between = turn.state === "done" && shown.some((part) => part.kind === "text") ? turn.tools.filter((tool) => tool.after > 0) : [];
    let sectionCount = 0;
    const visible = shown.map((part) => {
      const before = sectionCount;
      if (part.kind === "text") sectionCount += part.sections?.length ?? 1;
      const own = between.filter((tool) => tool.after > before && tool.after <= sectionCount);
      return { ...part, alone, firstSection: before, tools: own.map((tool) => ({ ...tool, after: tool.after - before })) };
    });
    const adopted = turn.state === "done" ? takeLive() : [];
    patchList(answer, parts, visible, (part, before) => partView(part, before, actions, adopted.slice(part.firstSection)), live?.body.isConnected ? live.body : meta);
    showMeta(visible);
    showUsedTools(turn.tools.filter((tool) => !between.includes(tool)));
    showActivity();
    if (turn.replaced_by) foldAway();
  }

  // A turn that was tried again makes room for the one that took its place.
  function foldAway() {
    if (root.classList.contains("replaced")) return;
    root.classList.add("replaced");
    const earlier = earlierAnswer(turn.messages.at(-1)?.received_at ?? 0);
    earlier.append(said, activity, used, answer);
    root.append(earlier);
  }

  // What was done for the answer; while it is being done, the lines of the running tools say so.
  function showUsedTools(tools) {
    const shown = turn.state === "done" && tools.length > 0;
    used.hidden = !shown;
    const written = JSON.stringify(tools);
    // One that is unfolded stays so.
    if (!shown || usedTools === written) return;
    usedTools = written;
    used.replaceChildren(usedToolsView(tools));
  }

  // The last that is known of the answer that is being written.
  function showLive(state) {
    if (turn?.state === "done") return;
    live ??= createGrowingAnswer(actions.resend);
    if (!live.body.isConnected) answer.insertBefore(live.body, meta);
    live.blocks = state.blocks;
    live.tools = state.tools;
    showActivity();
  }

  function patchBlocks(from, blocks) {
    if (turn?.state === "done") return;
    if (!live) showLive({ blocks: [], tools: [] });
    live.blocks = [...live.blocks.slice(0, from), ...blocks];
    showActivity();
  }

  function patchTool({ call, tool, state, question, after }) {
    if (turn?.state === "done") return;
    if (!live) showLive({ blocks: [], tools: [] });
    const known = live.tools.find((one) => one.call === call);
    if (known) Object.assign(known, { tool, state, question, after });
    else live.tools.push({ call, tool, state, question, after });
    showActivity();
  }

  // What grew was cut off, and will be written again or has been completed.
  function forgetLive() {
    takeLive();
    showActivity();
  }

  // Returns the texts that grew.
  function takeLive() {
    const texts = live?.texts ?? [];
    live?.body.remove();
    live = null;
    return texts;
  }

  function showActivity() {
    const running = turn === null || turn.state === "running";
    const waits = turn?.state === "waiting";
    const above = live?.show() ?? [];
    const written = live?.blocks.length > 0;
    activity.hidden = !(running || waits);
    answer.hidden = !(written || parts.size > 0 || (turn?.state === "done" && !meta.hidden));
    root.classList.toggle("writing", written && running);
    if (activity.hidden) {
      activity.replaceChildren();
      return;
    }
    const idle = above.length === 0 && !written;
    const dots = element("p", { class: "thinking" }, element("span", { class: "dots", "aria-hidden": "true" }, element("i"), element("i"), element("i")), waits ? "Queued" : "Working on it");
    activity.replaceChildren(...above, ...(idle ? [dots] : []));
  }

  function showMeta(visible) {
    const done = turn.state === "done";
    unusual ||= visible.some((part) => ["waiting", "in_doubt", "failed"].includes(part.state));
    const at = visible.at(-1)?.at ?? 0;
    const unsettled = visible.some((part) => part.state !== "sent");
    // The usual moment between an answer and its delivery is told only if it takes longer than usual.
    const short = visible[0]?.alone && isShort(visible[0]) ? STATES[visible[0].state] : null;
    const ending = ENDINGS[turn.ending] ?? null;
    const text = visible.map((part) => part.text).filter(Boolean).join("\n\n");
    // The text of an answer that was stopped says so.
    const endingWords = turn.ending === "cancelled" && text ? null : ending;
    meta.hidden = !done || (visible.length === 0 && !ending);
    meta.replaceChildren(
      ...[
        at ? element("time", { datetime: new Date(at).toISOString() }, clock(at)) : null,
        endingWords ? element("span", { class: "ending" }, icon(turn.ending === "cancelled" ? "refused" : "warning"), endingWords) : null,
        short ? element("span", { class: "undelivered" }, icon(short[0]), short[1]) : null,
        // What is delivered as it should be needs no words, and an answer that ended early has no success to report.
        unusual && visible.length > 0 && !unsettled && !ending ? element("span", { class: "delivered" }, icon("check"), "Delivered") : null,
        // What nobody wrote has nothing to be answered once more.
        turn.messages.length > 0 ? retryButton(ending !== null, () => actions.retryAsItWas(turn.id)) : null,
        text ? iconButton("Copy the answer as Markdown", "copy", (event) => copyAnswer(event.currentTarget, text)) : null,
      ].filter(Boolean),
    );
  }

  return {
    root,
    update,
    showLive,
    patchBlocks,
    patchTool,
    forgetLive,
    // Only the last turn of a conversation can be tried again.
    setLast(last) {
      root.classList.toggle("last", last);
    },
    // Shows it where it is folded away.
    unfold() {
      const earlier = root.querySelector(":scope > .earlier");
      if (earlier) earlier.open = true;
    },
    get turn() {
      return turn;
    },
    // The words of the answer, for those who listen instead of looking.
    get spoken() {
      return [...parts.values()].map((part) => part.body.innerText ?? "").join("\n").trim();
    },
  };
}

// Makes the children of `parent` before `end` those of `items`; what hasn't changed since is not touched.
function patchList(parent, known, items, make, end = null) {
  const wanted = new Set(items.map((item) => item.id));
  for (const [id, view] of known) {
    if (wanted.has(id)) continue;
    view.body.remove();
    known.delete(id);
  }
  for (const item of items) {
    const written = JSON.stringify(item);
    const before = known.get(item.id);
    if (before?.written === written) continue;
    const view = make(item, before);
    view.written = written;
    if (before && before.body !== view.body) before.body.replaceWith(view.body);
    known.set(item.id, view);
  }
  let next = end;
  for (const item of items.toReversed()) {
    const { body } = known.get(item.id);
    if (body.parentNode !== parent || body.nextElementSibling !== next) parent.insertBefore(body, next);
    next = body;
  }
}

function messageView(message, openPicture, resend) {
  const stored = message.files.filter((one) => one.state === "stored" && one.file).map((one) => one.file);
  const words = message.text ? bubble(message.text) : null;
  const body = element(
    "div",
    { class: "message" },
    element("h2", { class: "sr-only" }, `You, ${clock(message.received_at)}`),
    stored.length ? filesView(stored, openPicture) : null,
    ...message.files.filter((one) => one.state === "waiting" || (one.state === "stored" && !one.file)).map(waitingCard),
    ...message.files.filter((one) => one.state === "refused").map(refusedCard),
    words,
    element(
      "div",
      { class: "said-meta" },
      words && message.last ? editButton(message.text, words, resend) : null,
      element("time", { class: "said-at", datetime: new Date(message.received_at).toISOString() }, clock(message.received_at)),
    ),
  );
  return { body };
}

function partView(part, before, actions, adopted) {
  const body = before?.body ?? element("div", { class: `part part-${part.kind}` });
  const view = { body, textsWritten: before?.textsWritten, texts: before?.texts, files: before?.files, filesWritten: before?.filesWritten };
  const textsWritten = JSON.stringify([part.html, part.tools]);
  if (!before || before.textsWritten !== textsWritten) {
    view.textsWritten = textsWritten;
    view.texts = part.html ? textViews(part, adopted) : [];
  }
  // What was not delivered isn't shown as if it had been.
  const files = part.state === "failed" ? part.files.map((file) => ({ ...file, inline: "none", preview: null })) : part.files;
  const filesWritten = JSON.stringify(files);
  if (!before || before.filesWritten !== filesWritten) {
    view.filesWritten = filesWritten;
    view.files = files.length ? filesView(files, actions.openPicture) : null;
  }
  const wanted = [...view.texts, view.files, part.alone && isShort(part) ? null : stateLine(part, actions)].filter(Boolean);
  for (const child of [...body.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, at) => {
    if (body.children[at] !== child) body.insertBefore(child, body.children[at] ?? null);
  });
  return view;
}

// The texts of a part, and behind each of them the tools that were used after it.
function textViews(part, adopted) {
  const texts = part.sections?.map((section) => section.html) ?? [part.html];
  return texts.flatMap((html, at) => {
    const tools = part.tools.filter((tool) => tool.after === at + 1);
    return [grown(prose(html), adopted[at]), ...(tools.length > 0 ? [usedToolsView(tools)] : [])];
  });
}

// The text that grew before the reader's eyes stays where it ended as the same: nothing flickers, a selection holds.
function grown(text, adopted) {
  if (adopted) colourCode(adopted);
  return adopted && adopted.innerHTML === text.innerHTML ? adopted : text;
}

// States that pass by themselves in a moment.
function isShort(part) {
  return part.state === "pending" || part.state === "sending";
}

function stateLine(part, actions) {
  const [iconName, words] = STATES[part.state] ?? [];
  if (!words) return null;
  const reason = part.reason ? `${words}: ${part.reason}` : words;
  const line = element("div", { class: `state state-${part.state}` }, icon(iconName), element("span", {}, reason));
  if (part.state === "failed" && part.resend) {
    line.append(element("button", { type: "button", class: "quiet-button", on: { click: () => actions.resend(part.resend) } }, icon("retry"), "Send again"));
  }
  return line;
}

async function copyAnswer(button, text) {
  const copied = await copyText(text);
  button.replaceChildren(icon(copied ? "check" : "warning"));
  sayCopied(copied);
  setTimeout(() => button.replaceChildren(icon("copy")), 1600);
}
