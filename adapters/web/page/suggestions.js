// Shows what a command may become while it is typed, as a list above the message field.

import { byId, element } from "./dom.js";
import { suggest } from "./completion.js";

// What the field is while the list is open. Otherwise it is a text field of several lines, which no combobox is.
const COMBOBOX = {
  role: "combobox",
  "aria-autocomplete": "list",
  "aria-controls": "suggestions",
  "aria-expanded": "true",
  "aria-haspopup": "listbox",
};

// `field` is the message field.
export function createSuggestions(field) {
  const list = byId("suggestions");
  let commands = [];
  let shown = null;
  let active = -1;
  let moved = false;
  // Whether what stands in the field was typed, and the list was not closed since: it opens when commands come late.
  let typed = false;

  field.addEventListener("input", () => {
    typed = true;
    update();
  });
  field.addEventListener("blur", close);
  // Away from the word, what could stand in its place is no help.
  document.addEventListener("selectionchange", () => {
    if (shown && document.activeElement === field && !current()) close();
  });
  // The field keeps the focus, and on a phone the keyboard stays.
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) accept([...list.children].indexOf(option));
  });

  const current = () => (field.selectionStart === field.selectionEnd ? suggest(field.value, field.selectionEnd, commands) : null);

  function update() {
    shown = current();
    if (!shown) {
      hide();
      return;
    }
    list.replaceChildren(...shown.options.map(optionView));
    list.hidden = false;
    for (const [name, value] of Object.entries(COMBOBOX)) field.setAttribute(name, value);
    list.scrollTop = 0;
    moved = false;
    select(shown.first);
  }

  function close() {
    typed = false;
    hide();
  }

  function hide() {
    shown = null;
    active = -1;
    list.hidden = true;
    list.replaceChildren();
    for (const name of [...Object.keys(COMBOBOX), "aria-activedescendant"]) field.removeAttribute(name);
  }

  function select(index) {
    active = index;
    [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    const option = list.children[index];
    if (option) {
      field.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      field.removeAttribute("aria-activedescendant");
    }
  }

  function step(by) {
    const count = shown.options.length;
    moved = true;
    if (active < 0) select(by > 0 ? 0 : count - 1);
    else select((active + by + count) % count);
  }

  function accept(index) {
    const { from, options } = shown;
    field.focus();
    field.setRangeText(options[index].insert, from, field.value.length, "end");
    // The composer keeps what was typed, and what may follow is offered next.
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  // Does what a key does while the list is open; the answer is whether it did something.
  function takeKey(event) {
    if (!shown || event.isComposing || event.keyCode === 229 || event.altKey || event.ctrlKey || event.metaKey) return false;
    switch (event.key) {
      case "ArrowDown":
      case "ArrowUp":
        step(event.key === "ArrowDown" ? 1 : -1);
        break;
      case "Tab":
        if (event.shiftKey) return false;
        accept(Math.max(active, 0));
        break;
      case "Enter":
        // What is complete is sent: nobody who knows a command has to press the key twice.
        if (event.shiftKey || active < 0 || (shown.exact && !moved)) return false;
        accept(active);
        break;
      case "Escape":
        close();
        break;
      default:
        return false;
    }
    event.preventDefault();
    return true;
  }

  return {
    close,
    takeKey,
    setCommands(given) {
      // They come with each connection; the same ones leave alone what a person has chosen in the list.
      if (JSON.stringify(given) === JSON.stringify(commands)) return;
      commands = given;
      if (typed && document.activeElement === field) update();
    },
  };
}

function optionView({ label, description }, index) {
  return element(
    "li",
    { class: "suggestion", id: `suggestion-${index}`, role: "option", "aria-selected": "false" },
    element("span", { class: "suggestion-label" }, label),
    description ? element("span", { class: "suggestion-words" }, description) : null,
  );
}
