// Holds the turns of the open conversation in their order, and the reader's place among them.

import { isPicture } from "./attachments.js";
import { byId, element } from "./dom.js";
import { day } from "./format.js";
import { createTurnView } from "./turn.js";

const NEAR_PX = 32;
const PAGE_PX = 600;
// How many turns are loaded at once on the way to one that is far up.
const PAGE_OF_REVEAL = 200;
const REVEALED_MS = 2500;

// `actions`: those of a turn, and loadOlder(before, limit), answered(words), runs(turn or null).
export function createTimeline(actions) {
  const scroller = byId("timeline");
  const column = byId("column");
  const place = byId("turns");
  const older = byId("older");
  const toLatest = byId("to-latest");
  const views = new Map();
  let order = [];
  let more = false;
  let loading = null;
  // Which conversation is shown, counted: what was begun for another doesn't go on in this one.
  let generation = 0;
  let following = true;
  let followedTo = 0;

  // The reader's place.
  const pixelsBelow = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  scroller.addEventListener("scroll", () => {
    following = pixelsBelow() < NEAR_PX;
    if (following) {
      followedTo = scroller.scrollTop;
      toLatest.hidden = true;
    }
    if (scroller.scrollTop < PAGE_PX) loadOlder();
  }, { passive: true });
  // A reader who turns the wheel up leaves the end at once, however small the step.
  scroller.addEventListener("wheel", (event) => {
    if (event.deltaY < 0 && scroller.scrollHeight > scroller.clientHeight) following = false;
  }, { passive: true });
  new ResizeObserver(settle).observe(column);
  new ResizeObserver(settle).observe(scroller);
  toLatest.addEventListener("click", toEnd);
  byId("load-older").addEventListener("click", () => loadOlder());

  function settle() {
    // What introduces an empty conversation is read from its beginning.
    if (!byId("empty").hidden) {
      scroller.scrollTop = 0;
      return;
    }
    // A reader who has scrolled up isn't moved back: the event that reports it comes only with the next frame.
    if (scroller.scrollTop < followedTo && pixelsBelow() >= NEAR_PX) following = false;
    if (following) {
      scroller.scrollTop = scroller.scrollHeight;
      followedTo = scroller.scrollTop;
    } else if (pixelsBelow() > 2 * NEAR_PX) {
      toLatest.hidden = false;
    }
  }

  function follow() {
    following = true;
    followedTo = 0;
    toLatest.hidden = true;
  }

  function toEnd() {
    follow();
    settle();
  }

  // Loads what is above; one that is under way is waited for.
  function loadOlder(limit) {
    if (!more || order.length === 0) return Promise.resolve();
    const mine = generation;
    loading ??= loadBefore(order[0], limit).finally(() => {
      if (mine !== generation) return;
      loading = null;
      older.classList.remove("loading");
    });
    return loading;
  }

  async function loadBefore(first, limit) {
    older.classList.add("loading");
    const page = await actions.loadOlder(first, limit);
    // Another conversation may have been opened meanwhile.
    if (order[0] !== first || !page) return;
    const height = scroller.scrollHeight;
    const top = scroller.scrollTop;
    page.turns.forEach(put);
    setMore(page.more);
    arrange();
    if (!following) scroller.scrollTop = top + scroller.scrollHeight - height;
  }

  function setMore(there) {
    more = there;
    older.hidden = !there;
  }

  function view(id) {
    let found = views.get(id);
    if (!found) {
      found = createTurnView(actions);
      found.root.id = `turn-${id}`;
      views.set(id, found);
    }
    return found;
  }

  function put(turn) {
    // Its messages went on in another turn.
    if (turn.messages.length === 0 && turn.parts.length === 0 && turn.state !== "running") {
      drop(turn.id);
      return;
    }
    view(turn.id).update(turn);
  }

  function drop(id) {
    views.get(id)?.root.remove();
    views.delete(id);
  }

  // Puts the turns in order, and a day above the first of each day. Ids are made in the order of time.
  function arrange() {
    order = [...views.keys()].filter((id) => views.get(id).turn).sort();
    let next = null;
    const wanted = [];
    let lastDay = null;
    for (const id of order) {
      const at = views.get(id).turn.messages[0]?.received_at;
      const name = at ? day(at) : lastDay;
      if (name && name !== lastDay) wanted.push(dayLine(name));
      lastDay = name;
      wanted.push(views.get(id).root);
    }
    for (const line of place.querySelectorAll(":scope > .day")) if (!wanted.includes(line)) line.remove();
    for (const child of wanted.toReversed()) {
      if (child.parentNode !== place || child.nextElementSibling !== next) place.insertBefore(child, next);
      next = child;
    }
    for (const id of order) views.get(id).setLast(id === order.at(-1));
    actions.runs(order.map((id) => views.get(id).turn).find((turn) => turn.state === "running") ?? null);
    settle();
  }

  const dayLines = new Map();
  function dayLine(name) {
    if (!dayLines.has(name)) dayLines.set(name, element("p", { class: "day" }, name));
    return dayLines.get(name);
  }

  // Goes to a turn, and loads older ones until it is there. The answer is false where there is no such turn, and null
  // where that can't be told.
  async function reveal(id) {
    const mine = generation;
    following = false;
    while (!views.has(id) && more && order.length > 0 && id < order[0]) {
      const first = order[0];
      await loadOlder(PAGE_OF_REVEAL);
      // Another conversation was opened.
      if (mine !== generation) return null;
      // There is nothing above, or the server can't be reached.
      if (order[0] === first) return more ? null : false;
    }
    const root = views.get(id)?.root;
    if (!root) return false;
    views.get(id).unfold();
    root.scrollIntoView({ block: "start" });
    root.setAttribute("tabindex", "-1");
    root.focus({ preventScroll: true });
    root.classList.add("revealed");
    setTimeout(() => root.classList.remove("revealed"), REVEALED_MS);
    settle();
    return true;
  }

  return {
    toEnd,
    settle,
    reveal,
    clear() {
      for (const id of [...views.keys()]) drop(id);
      place.replaceChildren();
      generation += 1;
      loading = null;
      older.classList.remove("loading");
      dayLines.clear();
      setMore(false);
      order = [];
      follow();
    },
    // The truth of the last turns. Older ones that were loaded stay when nothing is missing between.
    snapshot({ turns, more: before, live }) {
      const first = turns[0]?.id ?? null;
      const there = new Set(turns.map((turn) => turn.id));
      const joined = first !== null && (views.has(first) || order.some((id) => id > first));
      const keepsOlder = joined && order.some((id) => id < first);
      for (const id of [...views.keys()]) {
        if (!there.has(id) && !(keepsOlder && id < first)) drop(id);
      }
      turns.forEach(put);
      if (!keepsOlder) setMore(before);
      for (const { id } of turns) {
        if (live?.turn === id) views.get(id)?.showLive(live);
        else views.get(id)?.forgetLive();
      }
      arrange();
    },
    turn(turn) {
      // Of a turn that is further up than what is loaded there is nothing to show yet.
      if (more && order.length > 0 && turn.id < order[0]) return;
      const before = views.get(turn.id)?.turn?.state;
      put(turn);
      arrange();
      if (turn.state === "done" && before !== "done") {
        actions.answered(views.get(turn.id)?.spoken ?? "");
      }
    },
    // What a turn shows that is being written; it may be heard of before the turn itself.
    live(state) {
      view(state.turn).showLive(state);
      settle();
    },
    blocks({ turn, from, blocks }) {
      view(turn).patchBlocks(from, blocks);
      settle();
    },
    tool(tool) {
      const running = order.toReversed().find((id) => views.get(id).turn.state === "running");
      const id = tool.turn ?? running;
      if (id) view(id).patchTool(tool);
      settle();
    },
    // What was said in a turn that waited has gone into the one that was running.
    gone({ turn }) {
      drop(turn);
      arrange();
    },
    get isEmpty() {
      return order.length === 0;
    },
    // What the person wrote, the latest first.
    earlierTexts() {
      const messages = order.toReversed().flatMap((id) => views.get(id).turn.messages.toReversed());
      return messages.map((message) => message.text).filter((text) => text && text.trim() !== "/stop");
    },
    pictures() {
      return order.flatMap((id) => {
        const { messages, parts } = views.get(id).turn;
        const said = messages.flatMap((message) => message.files.map((one) => one.file).filter(Boolean));
        return [...said, ...parts.flatMap((part) => part.files)].filter(isPicture);
      });
    },
  };
}
