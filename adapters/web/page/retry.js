// Tries the last turn again: by a button below its answer, or with other words from an editor in the place of its message.

import { element, icon, iconButton, tell } from "./dom.js";
import { clock } from "./format.js";

// The button below an answer. Where the turn has failed it says in words what it does.
export function retryButton(failed, retry) {
  const press = async ({ currentTarget: button }) => {
    button.disabled = true;
    await retry();
    button.disabled = false;
  };
  if (!failed) return iconButton("Try again", "retry", press, "plain-button last-only");
  return element("button", { type: "button", class: "quiet-button last-only", on: { click: press } }, icon("retry"), "Try again");
}

// The button beside a message: an editor takes the place of `view` until the message is sent or left as it was.
export function editButton(text, view, send) {
  const button = iconButton("Edit and send again", "pencil", open, "plain-button last-only");
  function open() {
    const close = () => {
      editor.replaceWith(view);
      button.hidden = false;
    };
    const leave = () => {
      close();
      button.focus();
    };
    const editor = messageEditor(text, async (words) => {
      await send(words);
      close();
    }, leave);
    view.replaceWith(editor);
    button.hidden = true;
    const field = editor.elements[0];
    fit(field);
    field.focus();
    field.setSelectionRange(text.length, text.length);
  }
  return button;
}

function messageEditor(text, send, leave) {
  const field = element("textarea", { "aria-label": "Your message", rows: 1, on: { input: () => fit(field) } });
  field.value = text;
  const complaint = element("p", { class: "complaint", role: "alert", hidden: true });
  const submit = element("button", { type: "submit", class: "solid-button" }, "Send");
  const cancel = element("button", { type: "button", class: "quiet-button", on: { click: leave } }, "Cancel");
  const form = element("form", { class: "message-editor" }, field, complaint, element("div", { class: "buttons" }, cancel, submit));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!field.value.trim()) return;
    tell(complaint, "");
    submit.disabled = true;
    try {
      await send(field.value);
    } catch (problem) {
      tell(complaint, problem.message);
      submit.disabled = false;
    }
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      // It would stop an answer as well.
      event.preventDefault();
      leave();
    } else if (event.target === field && event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  return form;
}

// As high as its words, up to a limit that the style sets.
function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

// Where a turn that was tried again is folded away: what it said and made is still there.
export function earlierAnswer(at) {
  return element("details", { class: "earlier" }, element("summary", {}, icon("clock"), element("span", {}, `Earlier answer, ${clock(at)}`), icon("forward")));
}
