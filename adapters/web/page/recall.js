// Brings back what was written before, with the arrow keys in an empty message field.

// `earlier()` lists what was written, the latest first.
export function createRecall(earlier) {
  let at = -1;
  let brought = "";

  // The text that a key brings into a field with this text, or null where the key does what it does elsewhere.
  return (event, text) => {
    if (event.shiftKey || event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return null;
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return null;
    if (text === "") at = -1;
    // What was changed since is a text of its own, in which the arrows move.
    else if (at < 0 || text !== brought) return null;
    const texts = earlier();
    const next = at + (event.key === "ArrowUp" ? 1 : -1);
    if (next < -1 || next >= texts.length) return null;
    at = next;
    brought = at < 0 ? "" : texts[at];
    return brought;
  };
}
