// The parts of replies that are in progress or failed.

import { newId } from "../api.js";
import { clock, count, day } from "../format.js";
import { discard, outbox, resend } from "./api.js";
import { button, confirm, emptyLine, label, row, rows, section } from "./parts.js";

const STATES = {
  pending: ["Queued", "plain"],
  sending: ["Being sent", "plain"],
  waiting: ["Will be retried", "warn"],
  in_doubt: ["May have arrived; checking", "warn"],
  open: ["Open question", "plain"],
  failed: ["Failed", "bad"],
};

export async function showOutbox(context) {
  const parts = await outbox();
  const failed = parts.filter((part) => part.state === "failed");
  const moving = parts.filter((part) => part.state !== "failed");
  const list = (some, words) => (some.length > 0 ? rows(...some.map((part) => partRow(part, context))) : emptyLine(words));
  return [
    section("In progress", list(moving, "Nothing is on its way.")),
    section("Failed", list(failed, "Nothing failed.")),
  ];
}

function partRow(part, { announce, reload }) {
  const { id, conversation, content, state, reason, attempts, created_at: planned, can_discard: canDiscard, can_resend: canResend } = part;
  const told = (words) => () => {
    announce(words);
    reload();
  };
  const giveUp = () =>
    confirm({ title: "Discard this part?", words: `It is not sent any more: ${content}, in ${conversation}. The closing notice names it.`, button: "Discard", danger: true }, () => discard(id), told("Discarded."));
  const sendAgain = () => {
    // One key for this dialog: a second press sends nothing twice.
    const key = newId();
    confirm({ title: "Send it again?", words: `It is sent in ${conversation}: ${content}.`, button: "Send again" }, () => resend(id, key), told("It is being sent again."));
  };
  return row({
    title: content || "files",
    labels: [label(...(STATES[state] ?? [state, "plain"]))],
    lines: [`${conversation} · ${day(planned)}, ${clock(planned)}${attempts > 0 ? ` · ${count(attempts, "attempt", "attempts")}` : ""}`, reason],
    buttons: [...(canResend ? [button("Send again", sendAgain)] : []), ...(canDiscard ? [button("Discard", giveUp)] : [])],
  });
}
