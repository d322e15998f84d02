// The browsers that are logged in to the page.

import { clock, date, day } from "../format.js";
import { endLogin, logins } from "./api.js";
import { button, confirm, emptyLine, label, named, row, rows, section } from "./parts.js";

const at = (milliseconds) => `${day(milliseconds)}, ${clock(milliseconds)}`;

export async function showLogins(context) {
  const all = await logins();
  return [section("Browsers", all.length > 0 ? rows(...all.map((login) => loginRow(login, context))) : emptyLine("No browser is logged in."))];
}

function loginRow(login, { announce, reload }) {
  const { client, created_at: since, used_at: used, expires_at: until, current } = login;
  const done = () => {
    announce(`Logged out ${client}.`);
    // The conversations' page asks for the token.
    if (current) location.assign("/");
    else reload();
  };
  const end = () =>
    confirm({ title: current ? "Log out this browser?" : `Log out ${client}?`, words: "To log in again, this browser needs a login link or the token.", button: "Log out", danger: true }, () => endLogin(login), done);
  return row({
    title: client,
    labels: current ? [label("This browser", "good")] : [],
    lines: [`Last used: ${at(used)}`, `Logged in: ${at(since)}, until ${date(until)}`],
    buttons: [named(button("Log out", end), `Log out ${client}`)],
  });
}
