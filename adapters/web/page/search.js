// The search field above the list of conversations, and what it finds.

import * as api from "./api.js";
import { byId, element, icon, tell } from "./dom.js";
import { count } from "./format.js";
import { hitView } from "./rows.js";

const TYPING_MS = 200;

// `actions`: opened(), openAgain(conversation, turn), shown(whether results take the place of the list).
export function createSearch(actions) {
  const field = byId("search");
  const place = byId("search-results");
  const status = byId("search-status");
  let typing = 0;
  // The request under way: what is typed meanwhile takes its place.
  let asking = new AbortController();

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
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    if (!words) {
      actions.shown(false);
      place.replaceChildren();
      tell(status, "");
      return;
    }
    try {
      const page = await api.search(words, { signal });
      if (signal.aborted) return;
      place.replaceChildren();
      showHits(words, page, signal);
    } catch (problem) {
      if (signal.aborted) return;
      place.replaceChildren();
      tell(status, problem.message);
    }
    actions.shown(true);
  }

  function showHits(words, { hits, more, unindexed }, signal) {
    place.append(...hits.map((hit) => hitView(hit, actions)));
    const shown = place.children.length;
    const found = shown === 0 ? `Nothing has “${words}”.` : `${count(shown, "place", "places")}${more ? " and more" : ""}`;
    const missing = unindexed ? ` ${count(unindexed, "turn is", "turns are")} still being indexed.` : "";
    tell(status, found + missing);
    const last = hits.at(-1)?.turn;
    if (more && last) place.append(moreView(words, last, signal));
  }

  function moreView(words, last, signal) {
    const button = element("button", { type: "button", class: "quiet-button" }, "Show more");
    const row = element("li", { class: "list-more" }, button);
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const page = await api.search(words, { before: last, signal });
        if (signal.aborted) return;
        const next = place.children.length - 1;
        row.remove();
        showHits(words, page, signal);
        place.children[next]?.querySelector("a, button")?.focus();
      } catch (problem) {
        button.disabled = false;
        if (!signal.aborted) tell(status, problem.message);
      }
    });
    return row;
  }

  return {
    focus() {
      field.focus();
      field.select();
    },
  };
}
