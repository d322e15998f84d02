// What the views of the settings are made of: sections, rows, labels, and the question before something is done.

import { ask } from "../dialogs.js";
import { byId, element } from "../dom.js";

// A part of a view with a heading.
export function section(title, ...children) {
  return element("section", { class: "block", "aria-label": title }, element("h3", { class: "block-title" }, title), ...children);
}

export const rows = (...children) => element("ul", { class: "rows" }, ...children);

// A row: what it is, what is known of it, and its controls. Names of other people keep their direction to themselves.
export function row({ title, lines = [], labels = [], buttons = [] }) {
  return element(
    "li",
    { class: "row" },
    element(
      "div",
      { class: "row-words" },
      element("p", { class: "row-title" }, element("bdi", {}, title), ...labels),
      ...lines.filter(Boolean).map((line) => element("p", { class: "row-line" }, ...[line].flat())),
    ),
    buttons.length > 0 ? element("div", { class: "row-buttons" }, ...buttons) : null,
  );
}

// `kind`: good, warn, bad, or none for one that only tells.
export const label = (words, kind = "plain") => element("span", { class: `label label-${kind}` }, words);

const CHANNEL_TITLES = { api: "API for programs", web: "Web page" };
export const channelTitle = (name) => CHANNEL_TITLES[name] ?? name[0].toUpperCase() + name.slice(1);

export const emptyLine = (words) => element("p", { class: "empty-line" }, words);

export const button = (words, click, className = "quiet-button") => element("button", { type: "button", class: className, on: { click } }, words);

// Says whom a button is about to those who don't see what it stands beside.
export function named(made, name) {
  made.setAttribute("aria-label", name);
  return made;
}

// Words in which what stands between backticks is code.
export const withCode = (words) => words.split("`").map((piece, at) => (at % 2 ? element("code", {}, piece) : piece));

// Asks whether something is to be done, does it with `act`, and calls `done`.
export function confirm({ title, words, button, danger }, act, done) {
  byId("confirmation-title").textContent = title;
  byId("confirmation-words").textContent = words;
  byId("confirmation-button").textContent = button;
  byId("confirmation-button").classList.toggle("danger-button", danger);
  ask(byId("confirmation"), act, done);
  byId("confirmation-cancel").focus();
}
