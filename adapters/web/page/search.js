// The search field above the list of conversations, and what it finds.

import * as api from "./api.js";
import { byId, element, icon, tell } from "./dom.js";
import { count } from "./format.js";
import { hitView } from "./rows.js";

const TYPING_MS = 200;

// `actions`: opened(), shown(whether results take the place of the list).
export function createSearch(actions) {
  const field = byId("search");
  const place = byId("search-results");
  const status = byId("search-status");
  let typing = 0;
  let latest = 0;

  byId("search-icon").append(icon("search"));
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, TYPING_MS);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(typing);
      search();
    } else if (event.key === "ArrowDown") {
      place.querySelector("a")?.focus();
    } else if (event.key === "Escape" && field.value) {
      clear();
    } else {
      return;
    }
    event.preventDefault();
  });

  function clear() {
    field.value = "";
    search();
  }

  async function search() {
    const words = field.value.trim();
    latest += 1;
    const mine = latest;
    if (!words) {
      actions.shown(false);
      place.replaceChildren();
      tell(status, "");
      return;
    }
    try {
      const page = await api.search(words);
      // What was typed since has an answer of its own.
      if (mine === latest) showPage(words, page);
    } catch (problem) {
      if (mine !== latest) return;
      place.replaceChildren();
      tell(status, problem.message);
      actions.shown(true);
    }
  }

  function showPage(words, page) {
    place.replaceChildren(...page.hits.map((hit) => hitView(hit, actions)));
    actions.shown(true);
    const found = page.hits.length === 0 ? `Nothing has “${words}”.` : `${count(page.hits.length, "place", "places")}${page.more ? " and more" : ""}`;
    const missing = page.unindexed ? ` ${count(page.unindexed, "older turn is", "older turns are")} still being indexed.` : "";
    tell(status, found + missing);
    offerMore(words, page);
  }

  function offerMore(words, { hits, more }) {
    const last = hits.at(-1)?.turn;
    if (!more || !last) return;
    const mine = latest;
    const button = element("button", { type: "button", class: "quiet-button" }, "Show more");
    const row = element("li", { class: "list-more" }, button);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const page = await api.search(words, last);
        if (mine !== latest) return;
        const views = page.hits.map((hit) => hitView(hit, actions));
        row.replaceWith(...views);
        views[0]?.querySelector("a").focus();
        offerMore(words, page);
      } catch (problem) {
        button.disabled = false;
        tell(status, problem.message);
      }
    });
    place.append(row);
  }

  return {
    focus() {
      field.focus();
      field.select();
    },
    // Whether a search is shown; what is shown is brought up to date by the next.
    get isShown() {
      return !place.hidden;
    },
  };
}
