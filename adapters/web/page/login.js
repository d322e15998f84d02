// Asks for the token where one is required, as often as it takes.

import * as api from "./api.js";
import { byId, tell } from "./dom.js";

let asking = null;

// Resolves once the server lets us in. Asked twice at a time, it asks the person once.
export function askForToken() {
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

function ask() {
  const dialog = byId("login");
  const form = byId("login-form");
  const field = byId("token");
  const complaint = byId("login-complaint");
  const button = byId("login-button");
  // There is nothing behind it to go back to.
  const stay = (event) => event.preventDefault();
  dialog.addEventListener("cancel", stay);
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    async function submit(event) {
      event.preventDefault();
      button.disabled = true;
      tell(complaint, "");
      try {
        await api.login(field.value);
        field.value = "";
        form.removeEventListener("submit", submit);
        dialog.removeEventListener("cancel", stay);
        dialog.close();
        resolve();
      } catch (problem) {
        tell(complaint, problem.status === 401 ? "That is not the token." : problem.message);
        field.select();
      } finally {
        button.disabled = false;
      }
    }
    form.addEventListener("submit", submit);
  });
}
