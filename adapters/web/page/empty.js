// What a conversation without messages shows: what one can do here, and who answers.

import { byId, element, icon } from "./dom.js";

const IDEAS = [
  { iconName: "image", title: "Save a photo", words: "Attach one and write: save this as beach.png", text: "save this as beach.png", attach: true },
  { iconName: "text", title: "Make a file", words: "write notes.txt: buy milk", text: "write notes.txt: buy milk" },
  { iconName: "file", title: "Find what is here", words: "list my files", text: "list my files" },
  { iconName: "keyboard", title: "See what it understands", words: "help", text: "help" },
];

// `suggest(text, attach)` puts an idea into the message field.
export function showEmpty(model, suggest) {
  const place = byId("empty");
  const offline = isOffline(model);
  const idea = ({ iconName, title, words, text, attach }) => {
    const button = element(
      "button",
      { type: "button", class: "idea" },
      element("span", { class: "idea-icon" }, icon(iconName)),
      element("span", { class: "idea-title" }, title),
      element("span", { class: "idea-words" }, words),
    );
    button.addEventListener("click", () => suggest(text, attach));
    return element("li", {}, button);
  };
  place.replaceChildren(
    element("img", { src: "/page/icon.svg", alt: "", width: 72, height: 72 }),
    element("h2", { class: "empty-title" }, "What shall I carry for you?"),
    element("p", { class: "empty-words" }, "Drop in files of any kind and say what you want done with them. Nothing that arrives here is lost, and what can't be delivered is told."),
    element("ul", { class: "ideas" }, ...IDEAS.map(idea)),
    element(
      "p",
      { class: "empty-model" },
      offline
        ? "The built-in offline model answers: it needs no account and no key. It is no AI, but knows a handful of phrases about files."
        : `${model} answers.`,
    ),
  );
}

export function isOffline(model) {
  return /^(the )?offline/i.test(model ?? "");
}

export function modelLine(model) {
  if (!model) return "";
  return isOffline(model) ? "Offline model · no key needed" : model;
}
