// The list of conversations: beside the timeline on wide windows, a drawer on narrow ones.

import * as api from "./api.js";
import { askForName, confirmDeletion } from "./dialogs.js";
import { byId, download, icon, tell } from "./dom.js";
import { closeMenu, menuIsOpen, openMenu } from "./menu.js";
import { groups, groupView, keyOf, titleOf } from "./rows.js";
import { createSearch } from "./search.js";
import { setTitle } from "./tab.js";

const NARROW = matchMedia("(max-width: 55.99rem)");
const REFRESH_AFTER_MS = 400;

// `actions`: open(conversation, turn), removed(conversation), announce(words).
export function createConversations(actions) {
  const drawer = byId("drawer");
  const backdrop = byId("backdrop");
  const opener = byId("open-drawer");
  const main = byId("main");
  const list = byId("conversation-list");
  const older = byId("older-conversations");
  const archive = byId("show-archived");
  let known = [];
  // What the rows on the page were made of.
  let shown = "";
  let more = false;
  let archived = false;
  let loaded = false;
  // How often the list was asked for: only the latest answer counts.
  let requests = 0;
  let current = null;
  // What is open, where the list doesn't have it.
  let elsewhere = null;
  let refreshing = 0;

  const search = createSearch({
    opened: () => setDrawer(false),
    openAgain: actions.open,
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
    // What the focus is on stands in the new rows, too.
    const at = document.activeElement;
    const key = list.contains(at) ? at.closest("[data-key]")?.dataset.key : null;
    const control = at?.classList.contains("row-more") ? "button" : "a";
    const rowActions = { opened: () => setDrawer(false), more: openRowMenu };
    shown = JSON.stringify(known);
    list.replaceChildren(...groups(known, archived).map((group) => groupView(group, current, rowActions)));
    if (key) (list.querySelector(`[data-key="${CSS.escape(key)}"] ${control}`) ?? list.querySelector("a"))?.focus();
    older.hidden = !more;
    archive.textContent = archived ? "Back to all conversations" : "Archived conversations";
    tell(byId("no-conversations"), loaded && archived && known.length === 0 ? "Nothing is archived." : "");
    showTitle();
  }

  function showTitle() {
    const open = known.find((one) => keyOf(one.id) === current) ?? elsewhere;
    const title = open ? titleOf(open) : null;
    byId("title").textContent = title ?? "New conversation";
    setTitle(title === null ? "Satchel" : `${title} · Satchel`);
  }

  async function refresh() {
    clearTimeout(refreshing);
    // The rows stay under an open menu; its end asks again.
    if (menuIsOpen()) return;
    const mine = (requests += 1);
    try {
      const page = await api.conversations({ archived });
      // What was asked later knows more.
      if (mine !== requests || menuIsOpen()) return;
      const fresh = new Set(page.conversations.map((one) => one.id));
      const oldest = page.conversations.at(-1)?.last_turn;
      // Older ones that were loaded stay. Ids are made in the order of time.
      const kept = page.more ? known.filter((one) => !one.pinned && !fresh.has(one.id) && one.last_turn < oldest) : [];
      const next = [...page.conversations, ...kept];
      // A list that is the same is left alone.
      if (loaded && JSON.stringify(next) === shown) return;
      if (kept.length === 0) more = page.more;
      known = next;
      loaded = true;
      show();
      await findCurrent();
    } catch {
      // The next event or reconnect asks again.
      if (JSON.stringify(known) !== shown) show();
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
    const mine = (requests += 1);
    try {
      const page = await api.conversations({ archived, before: known.at(-1)?.last_turn });
      if (mine !== requests) return;
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
    loaded = false;
    show();
    refresh();
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
      await reload(key);
    };
    const rename = () => askForName(title, (name) => api.changeConversation(key, { name }), () => reload(key));
    const remove = () => confirmDeletion(title, () => api.forgetConversation(key), () => removed(key, title));
    const entries = [
      { label: "Rename", iconName: "pencil", choose: rename },
      pinned
        ? { label: "Unpin", iconName: "pin", choose: change({ pinned: false }, `Unpinned ${title}.`) }
        : { label: "Pin", iconName: "pin", choose: change({ pinned: true }, `Pinned ${title}.`) },
      away
        ? { label: "Move back to the list", iconName: "archive", choose: change({ archived: false }, `Moved ${title} back to the list.`) }
        : { label: "Archive", iconName: "archive", choose: change({ archived: true }, `Archived ${title}.`) },
      { label: "Export", iconName: "download", choose: () => download(one.export) },
      { label: "Delete", iconName: "trash", danger: true, choose: remove },
    ];
    openMenu(button, entries, refreshSoon);
  }

  // Brings one row up to date, wherever it stands, and what is around it.
  async function reload(key) {
    let fresh = known.find((one) => keyOf(one.id) === key) ?? null;
    try {
      fresh = await api.conversation(key);
    } catch (problem) {
      // Another tab has deleted it; else what is known stays.
      if (problem.status === 404) fresh = null;
    }
    if (key === current) elsewhere = fresh;
    const stays = fresh !== null && fresh.archived === archived;
    known = known.flatMap((one) => (keyOf(one.id) !== key ? [one] : stays ? [fresh] : []));
    await refresh();
  }

  function removed(key, title) {
    known = known.filter((one) => keyOf(one.id) !== key);
    show();
    actions.announce(`Deleted ${title}.`);
    actions.removed(key);
    if (key === current) openNew();
    else list.querySelector("a")?.focus();
  }

  function refreshSoon() {
    clearTimeout(refreshing);
    refreshing = setTimeout(refresh, REFRESH_AFTER_MS);
  }

  return {
    openNew,
    refresh,
    refreshSoon,
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
      const newest = known.reduce((one, other) => (one && one.last_turn > other.last_turn ? one : other), null);
      return newest && keyOf(newest.id);
    },
  };
}
