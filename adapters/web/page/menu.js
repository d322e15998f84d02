// A menu that opens at a button: one at a time, by pointer or key, and the focus goes back to the button.

import { element, icon } from "./dom.js";

const GAP_PX = 4;
const EDGE_PX = 8;

let open = null;

// Whether one is open; what its button stands in is left alone until it closes.
export const menuIsOpen = () => open !== null;

// `entries`: { label, iconName, danger, choose() }. A second press of the button closes it; `closed` is told of every end.
export function openMenu(button, entries, closed) {
  const isOwn = open?.button === button;
  closeMenu();
  if (isOwn) return;
  const items = entries.map(({ label, iconName, danger, choose }) =>
    element(
      "button",
      {
        type: "button",
        class: danger ? "menu-item danger" : "menu-item",
        role: "menuitem",
        tabindex: -1,
        on: {
          click: () => {
            closeMenu();
            choose();
          },
        },
      },
      icon(iconName),
      element("span", {}, label),
    ),
  );
  const menu = element("div", { class: "menu", role: "menu", "aria-label": button.getAttribute("aria-label") }, ...items);
  menu.addEventListener("keydown", (event) => step(event, items));
  document.body.append(menu);
  place(menu, button);
  button.setAttribute("aria-expanded", "true");
  open = { menu, button, closed };
  items[0].focus();
  document.addEventListener("pointerdown", closeOutside, true);
  addEventListener("resize", closeMenu);
  document.addEventListener("scroll", closeMenu, true);
}

export function closeMenu() {
  if (!open) return;
  const { menu, button, closed } = open;
  open = null;
  const hadFocus = menu.contains(document.activeElement);
  menu.remove();
  button.setAttribute("aria-expanded", "false");
  if (hadFocus) button.focus();
  document.removeEventListener("pointerdown", closeOutside, true);
  removeEventListener("resize", closeMenu);
  document.removeEventListener("scroll", closeMenu, true);
  closed();
}

function closeOutside(event) {
  if (!open.menu.contains(event.target) && !open.button.contains(event.target)) closeMenu();
}

function step(event, items) {
  const at = items.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
  if (event.key in steps) {
    items.at(steps[event.key] % items.length).focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    closeMenu();
  } else {
    return;
  }
  // Escape would stop the answer as well.
  event.preventDefault();
}

// Below the button, or above it where there is no room.
function place(menu, button) {
  const at = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + GAP_PX + height <= innerHeight - EDGE_PX;
  const top = below ? at.bottom + GAP_PX : Math.max(EDGE_PX, at.top - GAP_PX - height);
  const left = Math.min(Math.max(EDGE_PX, at.right - width), innerWidth - width - EDGE_PX);
  menu.style.top = `${top}px`;
  menu.style.left = `${left}px`;
}
