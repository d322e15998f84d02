// Makes the rows of the list of conversations, in groups by time, and those of a search.

import { element, iconButton } from "./dom.js";
import { period, shortWhen } from "./format.js";

// The key of a conversation in addresses.
export function keyOf(id) {
  return id.slice(id.indexOf(":") + 1);
}

// What it is called: its name, or its first words; of code without the fence around it.
export function titleOf({ title, named }) {
  const words = named ? title : title.replace(/^(`{3,}|~{3,})\S*\s+/, "").replace(/\s(`{3,}|~{3,})$/, "");
  return words || "Files without words";
}

// Divides a list into groups with headings, in its order.
export function groups(list, archived) {
  const found = [];
  for (const one of list) {
    const name = archived ? "Archived" : one.pinned ? "Pinned" : period(one.last_at);
    if (found.at(-1)?.name !== name) found.push({ name, rows: [] });
    found.at(-1).rows.push(one);
  }
  return found;
}

// `actions`: opened(), more(button, conversation).
export function groupView({ name, rows }, current, actions) {
  return element(
    "section",
    { class: "conversation-group", "aria-label": name },
    element("h2", { class: "group-name" }, name),
    element("ul", {}, ...rows.map((one) => rowView(one, current, actions))),
  );
}

function rowView(one, current, actions) {
  const key = keyOf(one.id);
  const title = titleOf(one);
  const link = element(
    "a",
    { class: "conversation", href: `#/${key}`, "aria-current": key === current ? "page" : null, on: { click: actions.opened } },
    element("span", { class: "conversation-title" }, title),
    element("time", { class: "conversation-when", datetime: new Date(one.last_at).toISOString() }, shortWhen(one.last_at)),
  );
  const more = iconButton(`More for ${title}`, "more", () => actions.more(more, one), "plain-button row-more");
  more.setAttribute("aria-haspopup", "menu");
  more.setAttribute("aria-expanded", "false");
  return element("li", { class: "conversation-row", "data-key": key }, link, more);
}

// A place that has the words of a search. Its title is that of its conversation. `actions`: opened(), openAgain(conversation,
// turn), because the address of what is open already changes nothing by itself.
export function hitView(hit, actions) {
  const key = keyOf(hit.conversation);
  const address = hit.turn ? `#/${key}/${hit.turn}` : `#/${key}`;
  const choose = () => {
    actions.opened();
    if (location.hash === address) actions.openAgain(key, hit.turn);
  };
  const excerpt = hit.excerpt.map(({ text, matched }) => (matched ? element("mark", {}, text) : text));
  const link = element(
    "a",
    { class: "hit", href: address, on: { click: choose } },
    element("span", { class: "hit-head" },
      element("span", { class: "conversation-title" }, titleOf({ title: hit.title, named: false })),
      element("time", { class: "conversation-when", datetime: new Date(hit.at).toISOString() }, shortWhen(hit.at)),
    ),
    element("span", { class: "hit-words" }, ...excerpt),
  );
  return element("li", {}, link);
}
