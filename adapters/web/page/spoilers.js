// Hides spoilers until they are pressed.

import { element } from "./dom.js";

// Puts a button in the place of each spoiler. Pressed, it shows what was hidden and gives way to it.
export function hideSpoilers(fragment) {
  for (const spoiler of fragment.querySelectorAll("span.spoiler")) {
    // A button within a link would follow the link, so the whole link is hidden.
    const hidden = spoiler.closest("a") ?? spoiler;
    if (hidden.closest(".spoiler-text")) continue;
    const text = element("span", { class: "spoiler-text", tabindex: -1, hidden: true });
    const show = () => {
      text.hidden = false;
      button.remove();
      text.focus({ preventScroll: true });
    };
    const button = element("button", { type: "button", class: "spoiler-button", on: { click: show } }, "Show spoiler");
    hidden.replaceWith(button, text);
    text.append(hidden);
  }
}
