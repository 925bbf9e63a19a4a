// Groups of unknowns: each may be a class that has no name yet.

import { change, promote } from "./actions.js";
import { read } from "./api.js";
import { byId, make } from "./dom.js";
import { small } from "./face.js";
import { complain } from "./notes.js";
import { on, show, state } from "./state.js";
import { isOfTexts, itemCount } from "./words.js";

const box = byId("groups");
const STRIP = 24; // pictures of a group that are shown
const TEXTS = 4; // texts of a group
let drawn = null;

function card({ number, name, size, kinds, examples, representative, items }, groups) {
  const field = make("input", { placeholder: "Name this group", "aria-label": `Name for group ${number}`, maxlength: 200, autocomplete: "off", dir: "auto" });
  const many = make("input", { type: "number", min: 1, max: items.length, value: examples, "aria-label": "How many of them become examples" });
  const form = make("form", {}, field, make("label", { class: "note" }, "by ", many, " examples"),
    make("button", { type: "submit" }, "Make this a class"), addTo(number, many), joinWith(number, groups));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!field.value.trim()) return field.focus();
    promote(number, { name: field.value.trim(), examples: Number(many.value) || examples });
  });
  const first = [representative, ...items.filter((id) => id !== representative)].filter((id) => id !== null && id !== undefined);
  const strip = make("button", { class: "strip", "aria-label": `Look at all of group ${number}`, onclick: () => show({ view: `group:${number}`, search: "" }) },
    ...first.slice(0, isOfTexts() ? TEXTS : STRIP).map((id) => small(id)));
  const mixed = kinds > 1 ? [make("span", { class: "note" }, `looks like ${kinds} kinds`),
    make("button", { onclick: () => change("POST", `/groups/${number}/split`) }, "Split it")] : [];
  return make("li", { class: "group" },
    make("div", { class: "title" }, make("h3", { dir: "auto" }, name || `Group ${number}`), make("span", { class: "note" }, itemCount(size)),
      ...mixed, make("button", { onclick: () => show({ view: `group:${number}`, search: "" }) }, "Look at all")),
    strip, form);
}

// A list whose choice is done at once.
function choice(title, options, done) {
  const list = make("select", { "aria-label": title }, make("option", { value: "" }, title), ...options.map(([value, text]) => make("option", { value }, text)));
  list.addEventListener("change", () => list.value && done(Number(list.value)));
  list.hidden = !options.length;
  return list;
}

const addTo = (number, many) => choice("or add to class …", state.project.classes.map(({ id, name }) => [id, name]),
  (id) => promote(number, { class: id, examples: Number(many.value) || 5 }));

const joinWith = (number, groups) => choice("or join with …", groups.filter((one) => one.number !== number).map((one) => [one.number, one.name]),
  (other) => change("POST", `/groups/${number}/join`, { other }));

// Groups coarser or finer: the server finds them anew.
function detail() {
  const slider = make("input", { id: "group-detail", type: "range", min: -2, max: 2, step: 1, value: state.project.run.group_detail, "aria-label": "How fine the groups are, from coarse to fine" });
  slider.addEventListener("change", () => change("POST", "/groups", { detail: Number(slider.value) }));
  return make("label", { class: "note detail-level" }, "coarser ", slider, " finer");
}

async function draw() {
  if (state.view !== "groups" || !state.project?.run) return;
  try {
    const groups = await read("/groups");
    const now = JSON.stringify([groups, state.project.run.group_detail, state.project.classes.map(({ id, name }) => [id, name])]);
    if (now === drawn && box.firstChild) return; // no change: a half-typed name stays
    drawn = now;
    const none = isOfTexts() ? "The unknowns form no groups: no two of them are alike." : "The unknowns form no groups: no two of them look alike.";
    const alike = isOfTexts() ? "The unknowns of a group are alike. Its title has the words that tell it from the rest. If you know what a group is about, name it: texts that stand for all of it become examples, and the next run finds the rest."
      : "The unknowns of a group look alike. If you know what a group shows, name it: pictures that stand for all of it become examples, and the next run finds the rest.";
    const held = document.activeElement?.id === "group-detail";
    box.replaceChildren(make("p", { class: "note" }, groups.length ? alike : none), detail(), make("ul", { role: "list" }, ...groups.map((one) => card(one, groups))));
    if (held) byId("group-detail").focus();
  } catch (error) {
    complain(error, draw);
  }
}

export function startGroups() {
  on("view content", draw);
}
