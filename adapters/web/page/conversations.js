// The list of conversations: beside the timeline on wide windows, a drawer on narrow ones.

import * as api from "./api.js";
import { byId, element, icon } from "./dom.js";
import { shortWhen } from "./format.js";

const NARROW = matchMedia("(max-width: 55.99rem)");
const REFRESH_AFTER_MS = 400;

// The first words that were said; of code without the fence around it.
function titleOf({ title }) {
  return title.replace(/^(`{3,}|~{3,})\S*\s+/, "").replace(/\s(`{3,}|~{3,})$/, "");
}

// `actions`: open(conversation).
export function createConversations(actions) {
  const drawer = byId("drawer");
  const backdrop = byId("backdrop");
  const opener = byId("open-drawer");
  const main = byId("main");
  const list = byId("conversation-list");
  let known = [];
  let current = null;
  let refreshing = 0;

  opener.append(icon("menu"));
  byId("close-drawer").append(icon("close"));
  byId("new-conversation").prepend(icon("plus"));
  byId("new-conversation").addEventListener("click", openNew);
  opener.addEventListener("click", () => setDrawer(true));
  byId("close-drawer").addEventListener("click", () => setDrawer(false));
  backdrop.addEventListener("click", () => setDrawer(false));
  NARROW.addEventListener("change", () => setDrawer(false));

  // On narrow windows an open drawer has the page to itself, for the eye, the pointer and the keyboard.
  function setDrawer(open) {
    const shown = open && NARROW.matches;
    const wasShown = drawer.classList.contains("open");
    drawer.classList.toggle("open", shown);
    backdrop.hidden = !shown;
    main.inert = shown;
    opener.setAttribute("aria-expanded", String(shown));
    if (shown) byId("close-drawer").focus();
    else if (wasShown && NARROW.matches) opener.focus();
  }

  function openNew() {
    setDrawer(false);
    actions.open(api.newId());
  }

  function show() {
    const rows = known.map((one) => {
      const id = one.id.slice(one.id.indexOf(":") + 1);
      const link = element(
        "a",
        { class: "conversation", href: `#/${id}`, "aria-current": id === current ? "page" : null },
        element("span", { class: "conversation-title" }, titleOf(one) || "Files without words"),
        element("time", { class: "conversation-when", datetime: new Date(one.last_at).toISOString() }, shortWhen(one.last_at)),
      );
      link.addEventListener("click", () => setDrawer(false));
      return element("li", {}, link);
    });
    list.replaceChildren(...rows);
    const open = known.find((one) => one.id.endsWith(`:${current}`));
    const title = (open && titleOf(open)) || "New conversation";
    byId("title").textContent = title;
    document.title = title === "New conversation" ? "Satchel" : `${title} · Satchel`;
  }

  async function refresh() {
    clearTimeout(refreshing);
    try {
      const fresh = await api.conversations();
      // A list that is the same is left alone, with the focus that may be in it.
      if (JSON.stringify(fresh) === JSON.stringify(known)) return;
      known = fresh;
      const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      show();
      if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    } catch {
      // The next event or reconnect asks again.
    }
  }

  return {
    openNew,
    refresh,
    refreshSoon() {
      clearTimeout(refreshing);
      refreshing = setTimeout(refresh, REFRESH_AFTER_MS);
    },
    setCurrent(id) {
      current = id;
      show();
    },
    // Closes the drawer; tells whether there was one to close.
    close() {
      const open = drawer.classList.contains("open");
      if (open) setDrawer(false);
      return open;
    },
    step(by) {
      const ids = known.map((one) => one.id.slice(one.id.indexOf(":") + 1));
      const at = ids.indexOf(current);
      const next = ids[at < 0 ? 0 : at + by];
      if (next) actions.open(next);
    },
    get latest() {
      return known[0]?.id.slice(known[0].id.indexOf(":") + 1) ?? null;
    },
  };
}
