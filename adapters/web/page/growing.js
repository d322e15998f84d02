// An answer while it is written: its texts, and between them the tools that run.

import { element } from "./dom.js";
import { growingProse } from "./prose.js";
import { toolLine } from "./tools.js";

// `say(words)` answers a question.
export function createGrowingAnswer(say) {
  const body = element("div", { class: "growing" });
  const texts = [];
  const places = [];
  const line = (tool) => toolLine(tool, say);

  const view = {
    body,
    blocks: [],
    tools: [],
    // Shows what there is. Returns the lines of the tools that stand above all text.
    show() {
      const ends = [...new Set(view.tools.map((tool) => tool.after ?? 0))].filter((after) => after > 0).sort((a, b) => a - b);
      const wanted = [];
      [0, ...ends].forEach((from, at) => {
        if (at > 0) {
          places[at] ??= element("div", { class: "activity" });
          places[at].replaceChildren(...view.tools.filter((tool) => tool.after === from).map(line));
          wanted.push(places[at]);
        }
        texts[at] ??= growingProse();
        texts[at].patch(0, view.blocks.slice(from, ends[at]));
        if (texts[at].blocks > 0) wanted.push(texts[at].body);
      });
      texts.length = ends.length + 1;
      for (const child of [...body.children]) if (!wanted.includes(child)) child.remove();
      wanted.forEach((child, at) => {
        if (body.children[at] !== child) body.insertBefore(child, body.children[at] ?? null);
      });
      return view.tools.filter((tool) => !tool.after).map(line);
    },
    // The texts, for the finished answer.
    get texts() {
      return texts.map((text) => text.body).filter((text) => text.isConnected);
    },
  };
  return view;
}
