// What the words typed so far may become: commands, the names behind them, and the inputs of tasks.

// The suggestions for `text`, in which the cursor stands at `caret`; null where there is nothing to choose.
// `from` is where the word begins that a suggestion replaces, `first` which of them is chosen before a person does, or
// -1. `exact`: the word is complete already.
export function suggest(text, caret, commands) {
  const typed = text.slice(0, caret);
  // A command stands alone in its line, and is completed at its end.
  if (!/^\/[^\n]*$/.test(typed) || text.slice(caret).trim()) return null;
  const words = typed.slice(1).split(/\s+/);
  const word = words.at(-1);
  const from = caret - word.length;
  if (words.length === 1) return choose(commands, word, from, ({ name }) => ({ label: `/${name}`, insert: `${name} ` }));
  const command = find(commands, words[0]);
  const choices = command?.choices ?? [];
  if (words.length === 2) return choose(choices, word, from, ({ name }) => ({ insert: `${name} ` }));
  return chooseInput(find(choices, words[1])?.inputs ?? [], words.slice(2), from);
}

const lower = (name) => name.toLowerCase();
const find = (entries, name) => entries.find((entry) => lower(entry.name) === lower(name));

function choose(entries, word, from, details) {
  const fitting = entries.filter(({ name }) => lower(name).startsWith(lower(word)));
  if (fitting.length === 0) return null;
  const options = fitting.map((entry) => ({ label: entry.name, description: entry.description ?? "", ...details(entry) }));
  const same = fitting.findIndex(({ name }) => lower(name) === lower(word));
  return { from, options, first: Math.max(same, 0), exact: same >= 0 };
}

// The inputs that were not given yet. A task runs without them too, so none of them is chosen before a person does.
function chooseInput(inputs, words, from) {
  const word = words.at(-1);
  // Within quotation marks a space ends no word.
  if (word.includes("=") || (words.join(" ").match(/["“”„]/g) ?? []).length % 2 === 1) return null;
  const given = new Set(words.filter((one) => one.includes("=")).map((one) => one.split("=")[0]));
  const missing = inputs.filter((name) => !given.has(name)).map((name) => ({ name }));
  const chosen = choose(missing, word, from, ({ name }) => ({ label: `${name}=`, insert: `${name}=` }));
  return chosen && { ...chosen, first: word === "" ? -1 : chosen.first, exact: false };
}
