// The overview: channels, models, room, schedules, reminders and tools.

import { element } from "../dom.js";
import { clock, count, day, size } from "../format.js";
import { overview } from "./api.js";
import { channelTitle, emptyLine, label, row, rows, section, withCode } from "./parts.js";

const ROLES = { answers: ["Answers", "good"], fallback: ["Fallback", "plain"], choice: ["Can be chosen", "plain"] };
const TIERS = { read_only: ["Only reads", "plain"], side_effecting: ["Changes", "warn"], privileged: ["Asks first", "bad"] };
const DIRECTORIES = { data: "Data directory", files: "Files", shared: "Shared workspace" };

const at = (milliseconds) => `${day(milliseconds)}, ${clock(milliseconds)}`;

export async function showOverview() {
  const system = await overview();
  return [
    element(
      "dl",
      { class: "facts" },
      ...fact("Version", `Satchel ${system.version}`),
      ...fact("Platform", system.platform),
      ...fact("Started", at(system.started_at)),
      ...fact("Configuration", system.config_file ?? "No file; the defaults apply"),
    ),
    section("Channels", rows(...system.channels.map(channelRow)), element("p", { class: "block-line" }, "The checks tell whether the platforms can be reached.")),
    section("Models", rows(...system.models.map(modelRow))),
    section("Room", rows(...system.directories.map(directoryRow)), element("p", { class: "block-line" }, storedWords(system))),
    section("Schedules", listOr(system.schedules.map(scheduleRow), "No schedules are configured.")),
    section("Reminders", listOr(system.reminders.map(reminderRow), "Nobody has a reminder.")),
    section("Tools", element("details", { class: "fold" }, element("summary", {}, count(system.tools.length, "tool", "tools")), rows(...system.tools.map(toolRow)))),
  ];
}

const fact = (name, words) => [element("div", {}, element("dt", {}, name), element("dd", {}, words))];

const listOr = (made, words) => (made.length > 0 ? rows(...made) : emptyLine(words));

function channelRow({ name, detail, unsettled, in_doubt: inDoubt }) {
  const labels = [label("Started", "good")];
  const waiting = unsettled - inDoubt;
  if (waiting > 0) labels.push(label(`${count(waiting, "part", "parts")} in progress`));
  if (inDoubt > 0) labels.push(label(`${inDoubt} may have arrived`, "warn"));
  return row({ title: channelTitle(name), lines: [detail], labels });
}

function modelRow({ name, title, role, reason }) {
  const why = role === "answers" ? `Selected because ${reason}` : "";
  return row({ title, lines: [`${name}${why && ` · ${why}`}`], labels: [label(...ROLES[role])] });
}

function directoryRow({ role, path, free, total, reserved }) {
  const made = row({ title: DIRECTORIES[role] ?? role, lines: [element("code", {}, path), roomWords(free, total, reserved)] });
  if (total) {
    const meter = element("meter", { class: "room", min: 0, max: total, value: total - free, high: total - reserved, "aria-label": "Used space of the disk" });
    made.firstChild.append(meter);
  }
  return made;
}

function roomWords(free, total, reserved) {
  if (total === null) return "The free space is unknown.";
  const kept = reserved > 0 ? `; ${size(reserved)} are kept free for the database` : "";
  return `${size(free)} of ${size(total)} free${kept}`;
}

const storedWords = ({ files, file_bytes: bytes, workspace_bytes: workspaces }) =>
  `${count(files, "stored file", "stored files")} with ${size(bytes)}; workspaces with ${size(workspaces)}.`;

function scheduleRow({ name, next, conversation, enabled }) {
  const labels = [!enabled ? label("Disabled") : next ? label("Active", "good") : label("Never runs again", "warn")];
  return row({ title: name, lines: [`${next ? `Next ${next} in` : "In"} ${conversation}`], labels });
}

function reminderRow({ person, conversation, next_at: next, cron }) {
  return row({ title: person, lines: [`${at(next)} in ${conversation}`], labels: cron ? [label(`Repeats: ${cron}`)] : [] });
}

function toolRow({ name, description, tier }) {
  return row({ title: name, lines: [withCode(description)], labels: [label(...TIERS[tier])] });
}
