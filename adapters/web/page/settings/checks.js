// The checks of `satchel doctor`, run on request.

import { element } from "../dom.js";
import { count } from "../format.js";
import { runChecks } from "./api.js";
import { button, label, row, rows, section, withCode } from "./parts.js";

const LEVELS = { problem: ["Problem", "bad"], warning: ["Warning", "warn"], ok: ["OK", "good"] };

// What was found last; it stays while other views are looked at.
let last = null;

export async function showChecks({ announce }) {
  const result = element("div", { class: "view-content" });
  const complaint = element("p", { class: "complaint", role: "alert", hidden: true });
  const run = button("Run the checks", async () => {
    run.disabled = true;
    run.textContent = "Checking…";
    complaint.hidden = true;
    announce("The checks are running.");
    try {
      last = await runChecks();
      result.replaceChildren(...resultViews(last));
      announce(summary(last));
    } catch (problem) {
      complaint.textContent = problem.message;
      complaint.hidden = false;
    }
    run.disabled = false;
    run.textContent = "Run the checks again";
    run.focus();
  }, "solid-button");
  if (last) result.append(...resultViews(last));
  return [element("div", {}, run), complaint, result];
}

const ofLevel = (findings, level) => findings.filter((finding) => finding.level === level);

function summary(findings) {
  const problems = ofLevel(findings, "problem").length;
  const warnings = ofLevel(findings, "warning").length;
  if (problems + warnings === 0) return "Everything is in order.";
  return `${count(problems, "problem", "problems")} and ${count(warnings, "warning", "warnings")}.`;
}

function resultViews(findings) {
  const bad = [...ofLevel(findings, "problem"), ...ofLevel(findings, "warning")];
  const good = ofLevel(findings, "ok");
  return [
    element("p", { class: "summary" }, summary(findings)),
    ...(bad.length > 0 ? [section("To look at", rows(...bad.map(findingRow)))] : []),
    section("In order", element("details", { class: "fold", open: bad.length === 0 }, element("summary", {}, count(good.length, "check", "checks")), rows(...good.map(findingRow)))),
  ];
}

function findingRow({ check, level, found, advice }) {
  return row({ title: check, lines: [withCode(found), advice && withCode(`To fix it: ${advice}`)], labels: [label(...LEVELS[level])] });
}
