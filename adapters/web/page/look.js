// Light, dark, or as the system has it: the button that chooses, and the memory of it.

import { byId, icon } from "./dom.js";

const THEMES = [
  ["system", "Theme: system", "system"],
  ["light", "Theme: light", "sun"],
  ["dark", "Theme: dark", "moon"],
];

export function setUpTheme() {
  const button = byId("theme");
  const root = document.documentElement;

  function show() {
    const [, label, iconName] = THEMES.find(([name]) => name === (root.dataset.theme ?? "system"));
    button.replaceChildren(icon(iconName));
    button.setAttribute("aria-label", label);
    button.title = label;
  }

  button.addEventListener("click", () => {
    const at = THEMES.findIndex(([name]) => name === (root.dataset.theme ?? "system"));
    const [next] = THEMES[(at + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("satchel.theme");
      else localStorage.setItem("satchel.theme", next);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    show();
  });
  show();
}
