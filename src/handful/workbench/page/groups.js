// Groups of unknowns: each may be a class that has no name yet.

import { promote } from "./actions.js";
import { read } from "./api.js";
import { byId, make, pictures, thumbnail } from "./dom.js";
import { complain } from "./notes.js";
import { on, show, state } from "./state.js";

const box = byId("groups");
const STRIP = 24;
let drawn = null;

function card({ number, name, size, representative, items }) {
  const field = make("input", { placeholder: "Name this group", "aria-label": `Name for group ${number}`, maxlength: 200, autocomplete: "off", dir: "auto" });
  const many = make("input", { type: "number", min: 1, max: items.length, value: Math.min(5, items.length), "aria-label": "How many of them become examples" });
  const form = make("form", {}, field, make("label", { class: "note" }, "by ", many, " examples"),
    make("button", { type: "submit" }, "Make this a class"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!field.value.trim()) return field.focus();
    promote(number, field.value.trim(), Number(many.value) || 5);
  });
  const first = [representative, ...items.filter((id) => id !== representative)].filter((id) => id !== null && id !== undefined);
  const strip = make("button", { class: "strip", "aria-label": `Look at all of group ${number}`, onclick: () => show({ view: `group:${number}`, search: "" }) },
    ...first.slice(0, STRIP).map((id) => thumbnail(id, 96)));
  return make("li", { class: "group" },
    make("div", { class: "title" }, make("h3", { dir: "auto" }, name || `Group ${number}`), make("span", { class: "note" }, pictures(size)),
      make("button", { onclick: () => show({ view: `group:${number}`, search: "" }) }, "Look at all")),
    strip, form);
}

async function draw() {
  if (state.view !== "groups" || !state.project?.run) return;
  try {
    const groups = await read("/groups");
    const now = JSON.stringify(groups);
    if (now === drawn && box.firstChild) return; // no change: a half-typed name stays
    drawn = now;
    const words = groups.length
      ? "The unknowns of a group look alike. If you know what a group shows, name it: its most typical pictures become examples, and the next run finds the rest."
      : "The unknowns form no groups: no two of them look alike.";
    box.replaceChildren(make("p", { class: "note" }, words), make("ul", { role: "list" }, ...groups.map(card)));
  } catch (error) {
    complain(error, draw);
  }
}

export function startGroups() {
  on("view content", draw);
}
