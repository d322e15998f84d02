// What a conversation without messages shows: what one can do here, and who answers.

import { byId, element, icon } from "./dom.js";

// What any model understands that can use tools.
const IDEAS = [
  { iconName: "pdf", title: "Read a document", words: "Attach one and write: Sum this up in five points.", text: "Sum this up in five points.", attach: true },
  { iconName: "image", title: "Save a photo", words: "Attach one and write: Save this as holiday/beach.png.", text: "Save this as holiday/beach.png.", attach: true },
  { iconName: "text", title: "Make a file", words: "Write a packing list for a weekend by the sea, as a file.", text: "Write a packing list for a weekend by the sea, as a file." },
  { iconName: "file", title: "Find your files", words: "Which files do you have from me?", text: "Which files do you have from me?" },
];

// Phrases of the offline model, which knows no others.
const OFFLINE_IDEAS = [
  { iconName: "image", title: "Save a photo", words: "Attach one and write: save this as beach.png", text: "save this as beach.png", attach: true },
  { iconName: "text", title: "Make a file", words: "write notes.txt: buy milk", text: "write notes.txt: buy milk" },
  { iconName: "file", title: "Find your files", words: "list my files", text: "list my files" },
  { iconName: "keyboard", title: "See what it understands", words: "help", text: "help" },
];

// For models that take images.
const IMAGE_IDEA = { iconName: "image", title: "Ask about a picture", words: "Attach one and write: What is in this picture?", text: "What is in this picture?", attach: true };

// The ideas that fit the model that answers.
function ideasFor({ model_is_offline: offline, model_takes_images: takesImages }) {
  if (offline) return OFFLINE_IDEAS;
  if (!takesImages) return IDEAS;
  const [document, ...others] = IDEAS;
  return [document, IMAGE_IDEA, ...others.filter(({ attach }) => !attach)];
}

// `suggest(text, attach)` puts an idea into the message field.
export function showEmpty(session, suggest) {
  const { model, model_is_offline: offline } = session;
  const place = byId("empty");
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
    element("h2", { class: "empty-title" }, "What can I do for you?"),
    element("p", { class: "empty-words" }, "Drop files here and tell me what to do with them. Files you send are never lost. If I can't deliver something, I tell you what and why."),
    element("ul", { class: "ideas" }, ...ideasFor(session).map(idea)),
    element(
      "p",
      { class: "empty-model" },
      offline
        ? "The built-in offline model answers: it needs no account and no key. It isn't an AI; it understands a few phrases about files."
        : `${model} answers.`,
    ),
  );
}

export function modelLine({ model, model_is_offline: offline }) {
  return offline ? "Offline model · no key needed" : (model ?? "");
}
