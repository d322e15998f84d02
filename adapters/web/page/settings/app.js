// Puts the page of settings together: which view is open, by the address, and what goes wrong.

import * as api from "../api.js";
import { byId, element, icon, tell } from "../dom.js";
import { showChecks } from "./checks.js";
import { showConfiguration } from "./configuration.js";
import { showLogins } from "./logins.js";
import { showOutbox } from "./outbox.js";
import { showOverview } from "./overview.js";
import { showPeople } from "./people.js";
import { emptyLine } from "./parts.js";

// `show(context)` answers with the content. Its context: announce(words), reload().
const VIEWS = {
  overview: { title: "Overview", words: "What runs in this process.", show: showOverview },
  checks: { title: "Checks", words: "What `satchel doctor` says. The checks contact models and platforms, and change nothing.", show: showChecks },
  configuration: { title: "Configuration", words: "Every setting in effect and what changes it. The next start reads changes.", show: showConfiguration },
  people: { title: "People", words: "Who asks to talk on the platforms, and who may.", show: showPeople },
  logins: { title: "Logins", words: "The browsers that are logged in to this page. `satchel web logins` lists them, too.", show: showLogins },
  outbox: { title: "Outbox", words: "Parts of replies that are in progress or failed, on all channels.", show: showOutbox },
};

// How often a view was opened: only the latest one is shown.
let openings = 0;

const named = () => (Object.hasOwn(VIEWS, location.hash.slice(1)) ? location.hash.slice(1) : "overview");

// Opens the view that the address names; `moved` puts the focus on its title.
async function open(moved) {
  const mine = (openings += 1);
  const name = named();
  const { title, words, show } = VIEWS[name];
  for (const link of byId("views").children) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("views").querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  byId("view-title").textContent = title;
  byId("view-words").replaceChildren(...words.split("`").map((piece, at) => (at % 2 ? element("code", {}, piece) : piece)));
  document.title = `${title} · Settings · Satchel`;
  const content = byId("content");
  if (content.dataset.view !== name) content.replaceChildren(emptyLine("Loading…"));
  content.dataset.view = name;
  content.setAttribute("aria-busy", "true");
  if (moved) byId("view-title").focus();
  try {
    const made = await show({ announce, reload: () => open(true) });
    if (mine !== openings) return;
    tell(byId("complaint"), "");
    content.replaceChildren(...made);
  } catch (problem) {
    if (mine !== openings) return;
    content.replaceChildren();
    tell(byId("complaint"), problem.message);
  }
  content.removeAttribute("aria-busy");
}

function announce(words) {
  byId("announcer").textContent = words;
}

byId("back").append(icon("back"));
byId("refresh").append(icon("retry"));
byId("refresh").addEventListener("click", () => open(false));
byId("views").append(...Object.entries(VIEWS).map(([name, { title }]) => element("a", { href: `#${name}` }, title)));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("view").focus();
});
addEventListener("hashchange", () => open(true));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) location.assign("/");
});
// The conversations' page asks for the token.
api.onLockedOut(() => location.replace("/"));
open(false);
