// Asks before something is done: for a name, or whether it is meant.

import { byId, tell } from "./dom.js";

const LONGEST_NAME = 100;

// Asks for a name and stores it with `save`; what goes wrong is told in the dialog. Then `done` is called.
export function askForName(name, save, done) {
  const field = byId("rename-field");
  field.value = name.replace(/\s+/g, " ").slice(0, LONGEST_NAME);
  ask(byId("rename"), () => save(field.value), done);
  field.select();
}

// Asks whether a conversation is to be deleted, deletes it with `remove`, and calls `done`.
export function confirmDeletion(title, remove, done) {
  const words = "Its messages, its files and its workspace are removed for good. This can't be undone.";
  confirmRemoval(`Delete “${title}”?`, words, "Delete", remove, done);
}

// Asks whether a file is to be forgotten, forgets it with `forget`, and calls `done`.
export function confirmForgetting({ filename, number }, forget, done) {
  const words = `Its name, its content and its preview are removed for good. Only its number, #${number}, stays. This can't be undone.`;
  confirmRemoval(`Forget “${filename}”?`, words, "Forget", forget, done);
}

function confirmRemoval(title, words, verb, act, done) {
  byId("deletion-title").textContent = title;
  byId("deletion-words").textContent = words;
  byId("deletion").querySelector("[type=submit]").textContent = verb;
  ask(byId("deletion"), act, done);
  byId("deletion-cancel").focus();
}

// Shows a dialog whose form does `act`; what goes wrong is told in it. Then `done` is called.
export function ask(dialog, act, done) {
  const form = dialog.querySelector("form");
  const complaint = dialog.querySelector(".complaint");
  const button = dialog.querySelector("[type=submit]");
  const begin = () => {
    tell(complaint, "");
    button.disabled = false;
  };
  begin();
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(complaint, "");
    let problem = null;
    try {
      await act();
    } catch (error) {
      problem = error;
    }
    // It may have been closed meanwhile, or asks for something else.
    const isShown = dialog.open && form.onsubmit === submit;
    if (isShown && problem) {
      button.disabled = false;
      tell(complaint, problem.message);
    } else {
      // The focus goes back before what it goes back to is drawn anew.
      if (isShown) dialog.close();
      if (!problem) done();
    }
  };
  form.onsubmit = submit;
  dialog.querySelector("[data-cancel]").onclick = () => dialog.close();
  dialog.showModal();
}
