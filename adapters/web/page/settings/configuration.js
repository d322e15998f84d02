// Every setting: its value, where it comes from, and what changes it.

import { element, icon } from "../dom.js";
import { count } from "../format.js";
import { settings } from "./api.js";
import { emptyLine, label, section, withCode } from "./parts.js";

export async function showConfiguration() {
  const all = await settings();
  const field = element("input", { type: "search", class: "text-field", "aria-label": "Search the settings", placeholder: "Search by key, value, file or words", autocomplete: "off" });
  const status = element("p", { class: "sr-only", role: "status" });
  const result = element("div", { class: "view-content" });
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((setting) => words.every((word) => searchText(setting).includes(word)));
    if (words.length > 0) status.textContent = count(found.length, "setting", "settings");
    result.replaceChildren(...resultViews(found, words.length > 0));
  };
  field.addEventListener("input", show);
  show();
  return [element("div", { class: "filter-field", role: "search" }, icon("search"), field), status, result];
}

const valueText = (value) => (value === null ? "not set" : typeof value === "string" ? value : JSON.stringify(value));

// The name and the line of a file say enough beside its path.
const shortOrigin = (origin) => origin.replace(/^[^ ]*\/(?=[^/ ]+:\d+$)/, "");

const searchText = ({ key, value, origin, description }) => `${key} ${valueText(value)} ${origin} ${description}`.toLowerCase();

function resultViews(found, filtered) {
  if (found.length === 0) return [emptyLine("No setting has these words.")];
  const given = found.filter((setting) => !setting.is_default);
  const defaults = found.filter((setting) => setting.is_default);
  return [
    ...(given.length > 0 ? [section("Set", list(given))] : []),
    ...(defaults.length > 0
      ? [section("Defaults", element("details", { class: "fold", open: filtered }, element("summary", {}, count(defaults.length, "setting", "settings")), list(defaults)))]
      : []),
  ];
}

const list = (found) => element("ul", { class: "rows" }, ...found.map(settingRow));

function settingRow({ key, value, origin, is_default: isDefault, description, change }) {
  return element(
    "li",
    { class: "row setting" },
    element(
      "p",
      { class: "setting-head" },
      element("code", { class: "setting-key" }, key),
      value === null ? element("span", { class: "unset" }, "not set") : element("code", { class: "setting-value" }, valueText(value)),
    ),
    element("p", { class: "row-line" }, ...withCode(description)),
    element("p", { class: "row-line setting-change" }, label(shortOrigin(origin), isDefault ? "plain" : "good"), element("span", {}, ...withCode(change))),
  );
}
