// Shows tools: those that run, each on its line with what a person is asked before it, and those that ran, folded into one.

import { element, icon } from "./dom.js";
import { count, elapsed } from "./format.js";
import { prose } from "./prose.js";

const STATES = { started: "running", finished: "done", failed: "failed" };
const ENDED_STATES = { started: "not finished", finished: "done", failed: "failed" };

export function toolLine({ tool, state, question }, say) {
  if (question) return questionView(question, say);
  const iconName = { finished: "check", failed: "warning" }[state] ?? "tool";
  return element("p", { class: `tool tool-${state}` }, icon(iconName), element("code", {}, tool), element("span", {}, STATES[state] ?? state));
}

// What a person is asked before a tool runs. A pressed button says its command; the answer takes the question away.
function questionView({ html, buttons }, say) {
  const row = element("div", { class: "question-buttons" });
  row.append(
    ...buttons.map(({ label, command }, index) => {
      const press = () => {
        row.querySelectorAll("button").forEach((button) => (button.disabled = true));
        say(command);
      };
      return element("button", { type: "button", class: index === 0 ? "solid-button" : "quiet-button", on: { click: press } }, label);
    }),
  );
  return element("section", { class: "question", "aria-label": "A question before a tool runs" }, prose(html), row);
}

// What was done for an answer. A tool that failed is seen without unfolding, whatever the answer says of it.
export function usedToolsView(tools) {
  const failed = tools.filter(({ state }) => state === "failed").length;
  const words = count(tools.length, "tool", "tools");
  const summary = failed === 0 ? `Used ${words}` : failed === tools.length ? `${words} failed` : `Used ${words}, ${failed} failed`;
  return element(
    "details",
    { class: failed ? "used-tools has-failed" : "used-tools" },
    element("summary", {}, icon(failed ? "warning" : "tool"), element("span", {}, summary), icon("forward")),
    element("ul", {}, ...tools.map(usedToolLine)),
  );
}

function usedToolLine({ tool, arguments: given, state, reason, took_ms: took }) {
  const told = took === null ? ENDED_STATES[state] : `${ENDED_STATES[state]} in ${elapsed(took)}`;
  return element(
    "li",
    { class: `tool tool-${state}` },
    icon({ finished: "check", failed: "warning" }[state] ?? "refused"),
    element("div", { class: "tool-words" },
      element("p", {}, element("code", {}, tool), " ", element("span", {}, told)),
      given ? element("p", { class: "tool-arguments" }, given) : null,
      reason ? element("p", { class: "tool-reason" }, reason) : null,
    ),
  );
}
