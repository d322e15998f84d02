// The people who ask to talk, and those who may.

import { clock, day } from "../format.js";
import { decidePairing, people, revoke } from "./api.js";
import { button, channelTitle, confirm, emptyLine, label, named, row, rows, section } from "./parts.js";

const ROLES = { owner: ["Owner", "good"], user: ["May talk", "plain"] };

export async function showPeople(context) {
  const { pairings, people: known } = await people();
  return [
    section("Waiting for approval", pairings.length > 0 ? rows(...pairings.map((one) => pairingRow(one, context))) : emptyLine("No one is waiting for approval.")),
    section("People", known.length > 0 ? rows(...known.map((one) => personRow(one, context))) : emptyLine("Nobody but you may talk: no platform has owners or allowed people, and no code approved anybody.")),
  ];
}

const nameOf = ({ name, handle, id }) => (name ? `${name}${handle ? ` (@${handle})` : ""}` : id);

function pairingRow(pairing, { announce, reload }) {
  const { code, channel, id, expires_at: until } = pairing;
  const name = nameOf(pairing);
  const decide = (approve, done) => [
    () => decidePairing(code, approve),
    () => {
      announce(done);
      reload();
    },
  ];
  const approve = () =>
    confirm({ title: `Approve ${name}?`, words: `They may talk to the assistant on ${channelTitle(channel)} and are told so.`, button: "Approve" }, ...decide(true, `Approved ${name}.`));
  const refuse = () =>
    confirm({ title: `Refuse ${name}?`, words: "They get no new code for a day.", button: "Refuse", danger: true }, ...decide(false, `Refused ${name}.`));
  return row({
    title: name,
    lines: [`Id ${id} on ${channelTitle(channel)}`, `Code ${code}, valid until ${clock(until)}`],
    buttons: [named(button("Approve", approve), `Approve ${name}`), named(button("Refuse", refuse), `Refuse ${name}`)],
  });
}

function personRow(person, { announce, reload }) {
  const { channel, id, role, configured_at: configured, approved_at: since, approved_by: by } = person;
  const name = nameOf(person);
  const done = () => {
    announce(`Revoked the approval of ${name}.`);
    reload();
  };
  const remove = () =>
    confirm({ title: `Revoke the approval of ${name}?`, words: "Their next message gets a pairing code instead of an answer.", button: "Revoke", danger: true }, () => revoke(person), done);
  return row({
    title: name,
    labels: [label(...ROLES[role])],
    lines: [`${person.name ? `Id ${id} on` : "On"} ${channelTitle(channel)}`, configured ? `Allowed by ${configured}; change it there` : `Approved by ${by}, ${day(since)}`],
    buttons: configured ? [] : [named(button("Revoke", remove), `Revoke ${name}`)],
  });
}
