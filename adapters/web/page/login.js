// The ways in: the link that `satchel run` prints, and the token, which is requested as often as it takes.

import * as api from "./api.js";
import { byId, element, tell } from "./dom.js";

const SECRET = /^#login=([A-Za-z0-9_-]+)$/;

let asking = null;

// Takes the secret of a login link out of the address, where neither a bookmark nor the history should have it.
export function takeLinkSecret() {
  const secret = location.hash.match(SECRET)?.[1] ?? null;
  if (secret) history.replaceState(null, "", location.pathname);
  return secret;
}

export const hasLinkSecret = () => SECRET.test(location.hash);

// Resolves once the server lets us in. Asked twice at a time, it asks the person once.
export function askForToken(reason = "") {
  asking ??= ask(reason).finally(() => (asking = null));
  return asking;
}

function ask(reason) {
  const dialog = byId("login");
  const form = byId("login-form");
  const field = byId("token");
  const complaint = byId("login-complaint");
  const button = byId("login-button");
  // There is nothing behind it to go back to.
  const stay = (event) => event.preventDefault();
  dialog.addEventListener("cancel", stay);
  if (!dialog.open) dialog.showModal();
  complain(complaint, reason);
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
        complain(complaint, problem.status === 401 ? "That token is wrong. Try again, or ask the owner for it." : problem.message);
        field.select();
      } finally {
        button.disabled = false;
      }
    }
    form.addEventListener("submit", submit);
  });
}

// Says why not, with the commands that help in type of their own.
function complain(place, words) {
  tell(place, words);
  place.replaceChildren(...words.split("`").map((piece, at) => (at % 2 ? element("code", {}, piece) : piece)));
  // In a low window the dialog scrolls.
  place.scrollIntoView({ block: "nearest" });
}
