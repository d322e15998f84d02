// Asks before something is done: for a name, or whether it is meant.

import { byId, tell } from "./dom.js";

// Asks for a name, and sees to it with `save`, whose failure is told in the dialog.
export function askForName(name, save) {
  const field = byId("rename-field");
  field.value = name;
  ask(byId("rename"), () => save(field.value));
  field.select();
}

// Asks whether a conversation is to be deleted, and deletes it with `remove`.
export function confirmDeletion(title, remove) {
  byId("deletion-title").textContent = `Delete “${title}”?`;
  ask(byId("deletion"), remove);
  byId("deletion-cancel").focus();
}

function ask(dialog, act) {
  const form = dialog.querySelector("form");
  const complaint = dialog.querySelector(".complaint");
  const button = dialog.querySelector("[type=submit]");
  tell(complaint, "");
  button.disabled = false;
  form.onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(complaint, "");
    try {
      await act();
      dialog.close();
    } catch (problem) {
      tell(complaint, problem.message);
    } finally {
      button.disabled = false;
    }
  };
  dialog.querySelector("[data-cancel]").onclick = () => dialog.close();
  dialog.showModal();
}
