// Which model answers in the open conversation, and the menu with which an owner chooses another one.

import * as api from "./api.js";
import { byId, icon } from "./dom.js";
import { modelLine } from "./empty.js";
import { openMenu } from "./menu.js";

// `choose(name)` lets another model answer in the open conversation.
export function createModelPicker(choose) {
  const line = byId("model");
  const button = byId("choose-model");
  let conversation = null;
  let usual = "";
  // Those that can be chosen, the usual one first; of one model there is no choice.
  let names = [];
  let chosen = null;

  button.append(icon("swap"));
  button.addEventListener("click", () => openMenu(button, names.map(entry), () => {}));

  // A chosen model that was removed answers no more.
  const current = () => (names.length > 0 && !names.includes(chosen) ? names[0] : chosen);

  function entry(name) {
    const answers = name === current();
    return { label: answers ? `${name} (answers here)` : name, iconName: answers ? "check" : "blank", choose: () => (answers ? null : choose(name)) };
  }

  function show() {
    button.hidden = names.length < 2;
    line.textContent = current() && current() !== names[0] ? current() : usual;
  }

  async function refresh() {
    const wanted = conversation;
    let found = null;
    try {
      found = await api.conversation(wanted);
    } catch (problem) {
      // A conversation without a message has nothing chosen; of another one nothing new is known.
      if (problem.status !== 404) return;
    }
    if (wanted !== conversation) return;
    chosen = found?.model ?? null;
    show();
  }

  return {
    refresh,
    setSession(session) {
      usual = modelLine(session);
      show();
    },
    setCommands(commands) {
      names = commands.find(({ name }) => name === "model")?.choices.map(({ name }) => name) ?? [];
      show();
    },
    setConversation(id) {
      conversation = id;
      chosen = null;
      show();
      refresh();
    },
  };
}
