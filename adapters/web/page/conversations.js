// The list of conversations: beside the timeline on wide windows, a drawer on narrow ones.

import * as api from "./api.js";
import { askForName, confirmDeletion } from "./dialogs.js";
import { byId, icon, tell } from "./dom.js";
import { closeMenu, openMenu } from "./menu.js";
import { groups, groupView, keyOf, titleOf } from "./rows.js";
import { createSearch } from "./search.js";

const NARROW = matchMedia("(max-width: 55.99rem)");
const REFRESH_AFTER_MS = 400;

// `actions`: open(conversation), announce(words).
export function createConversations(actions) {
  const drawer = byId("drawer");
  const backdrop = byId("backdrop");
  const opener = byId("open-drawer");
  const main = byId("main");
  const list = byId("conversation-list");
  const older = byId("older-conversations");
  const archive = byId("show-archived");
  let known = [];
  let more = false;
  let archived = false;
  let current = null;
  // What is open, where the list doesn't have it.
  let elsewhere = null;
  let refreshing = 0;

  const search = createSearch({
    opened: () => setDrawer(false),
    shown(there) {
      byId("search-results").hidden = !there;
      byId("browse").hidden = there;
    },
  });

  opener.append(icon("menu"));
  byId("close-drawer").append(icon("close"));
  byId("new-conversation").prepend(icon("plus"));
  byId("new-conversation").addEventListener("click", openNew);
  opener.addEventListener("click", () => setDrawer(true));
  byId("close-drawer").addEventListener("click", () => setDrawer(false));
  backdrop.addEventListener("click", () => setDrawer(false));
  NARROW.addEventListener("change", () => setDrawer(false));
  older.addEventListener("click", loadOlder);
  archive.addEventListener("click", () => setArchived(!archived));

  // On narrow windows an open drawer has the page to itself, for the eye, the pointer and the keyboard.
  function setDrawer(open) {
    const shown = open && NARROW.matches;
    const wasShown = drawer.classList.contains("open");
    closeMenu();
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
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const rowActions = { opened: () => setDrawer(false), more: openRowMenu };
    list.replaceChildren(...groups(known, archived).map((group) => groupView(group, current, rowActions)));
    if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    older.hidden = !more;
    archive.textContent = archived ? "Back to all conversations" : "Archived conversations";
    tell(byId("no-conversations"), archived && known.length === 0 ? "Nothing is archived." : "");
    showTitle();
  }

  function showTitle() {
    const open = known.find((one) => keyOf(one.id) === current) ?? elsewhere;
    const title = open ? titleOf(open) : null;
    byId("title").textContent = title ?? "New conversation";
    document.title = title === null ? "Satchel" : `${title} · Satchel`;
  }

  async function refresh() {
    clearTimeout(refreshing);
    try {
      const page = await api.conversations({ archived });
      const fresh = new Set(page.conversations.map((one) => one.id));
      const oldest = page.conversations.at(-1)?.last_turn;
      // Older ones that were loaded stay. Ids are made in the order of time.
      const kept = page.more ? known.filter((one) => !fresh.has(one.id) && one.last_turn < oldest) : [];
      const next = [...page.conversations, ...kept];
      // A list that is the same is left alone, with the focus that may be in it.
      if (JSON.stringify(next) === JSON.stringify(known)) return;
      if (kept.length === 0) more = page.more;
      known = next;
      show();
      await findCurrent();
    } catch {
      // The next event or reconnect asks again.
    }
  }

  // The conversation that is open may be archived, or further down than what is loaded.
  async function findCurrent() {
    const wanted = current;
    if (wanted === null || known.some((one) => keyOf(one.id) === wanted)) return;
    try {
      const found = await api.conversation(wanted);
      if (wanted !== current) return;
      elsewhere = found;
      showTitle();
    } catch {
      // It has no message yet.
    }
  }

  async function loadOlder() {
    older.disabled = true;
    try {
      const page = await api.conversations({ archived, before: known.at(-1)?.last_turn });
      const there = new Set(known.map((one) => one.id));
      known = [...known, ...page.conversations.filter((one) => !there.has(one.id))];
      more = page.more;
      show();
    } catch (problem) {
      actions.announce(problem.message);
    } finally {
      older.disabled = false;
    }
  }

  function setArchived(there) {
    archived = there;
    known = [];
    more = false;
    refresh().then(show);
  }

  function openRowMenu(button, one) {
    const { id, pinned, archived: away } = one;
    const key = keyOf(id);
    const title = titleOf(one);
    const change = (change, done) => async () => {
      try {
        await api.changeConversation(key, change);
        actions.announce(done);
      } catch (problem) {
        actions.announce(problem.message);
      }
      await refresh();
    };
    const entries = [
      { label: "Rename", iconName: "pencil", choose: () => askForName(title, (name) => rename(key, name)) },
      pinned
        ? { label: "Unpin", iconName: "pin", choose: change({ pinned: false }, `Unpinned ${title}.`) }
        : { label: "Pin", iconName: "pin", choose: change({ pinned: true }, `Pinned ${title}.`) },
      away
        ? { label: "Move back to the list", iconName: "archive", choose: change({ archived: false }, `Moved ${title} back to the list.`) }
        : { label: "Archive", iconName: "archive", choose: change({ archived: true }, `Archived ${title}.`) },
      { label: "Delete", iconName: "trash", danger: true, choose: () => confirmDeletion(title, () => remove(key, title)) },
    ];
    openMenu(button, entries);
  }

  async function rename(key, name) {
    await api.changeConversation(key, { name });
    await refresh();
  }

  async function remove(key, title) {
    await api.forgetConversation(key);
    known = known.filter((one) => keyOf(one.id) !== key);
    show();
    actions.announce(`Deleted ${title}.`);
    if (key === current) openNew();
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
      elsewhere = null;
      show();
      findCurrent();
    },
    // Closes the drawer; tells whether there was one to close.
    close() {
      const open = drawer.classList.contains("open");
      if (open) setDrawer(false);
      return open;
    },
    search() {
      setDrawer(true);
      search.focus();
    },
    step(by) {
      const keys = known.map((one) => keyOf(one.id));
      const at = keys.indexOf(current);
      const next = keys[at < 0 ? 0 : at + by];
      if (next) actions.open(next);
    },
    get latest() {
      return known[0] ? keyOf(known[0].id) : null;
    },
  };
}
