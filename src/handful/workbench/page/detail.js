// The details of one picture: large, with the probability of each class and the most similar examples. It follows the
// cursor.

import { accept, label, similar } from "./actions.js";
import { read } from "./api.js";
import { byId, isolate, key, later, make, paintTone, percent } from "./dom.js";
import { large, shortName, small } from "./face.js";
import { fetchItems } from "./items.js";
import { complain } from "./notes.js";
import { className, cursorId, on, state, tell } from "./state.js";
import { isOfTexts, worded } from "./words.js";

const box = byId("detail");
let shownId = null;

const current = () => (state.selected.size === 1 ? [...state.selected][0] : cursorId());

export function openDetail() {
  if (current() === null) return;
  state.details = true;
  shownId = null;
  draw();
}

export function closeDetail() {
  state.details = false;
  shownId = null;
  const focused = box.contains(document.activeElement);
  box.hidden = true;
  document.body.classList.remove("detailed");
  if (focused) byId("grid").focus();
  tell("layout");
}

// A class and its probability; a click gives the picture this class.
function chance(item, id, share) {
  const line = make("span", { class: "bar" });
  line.style.setProperty("--at", percent(share) || "0%");
  const give = make("button", { "data-do": `give ${id}`, title: `Give it the label ${className(id)}`, onclick: () => label(id, [item.id]) },
    isolate(className(id)), line, make("i", {}, percent(share)));
  return paintTone(make("li", {}, give), id);
}

function verdict(item) {
  if (item.class !== null) return make("p", { class: "verdict labelled" }, "★ labelled by you: ", isolate(className(item.class)));
  if (item.decision === null) return make("p", { class: "verdict" }, "No label yet.");
  const sure = percent(item.confidence);
  return make("p", { class: "verdict" }, "Decided: ", isolate(className(item.decision)), sure ? `, ${sure} sure` : "", item.changed ? ", changed with the last run" : "");
}

// The other columns of the row, for texts of a table.
function columnsOf({ columns }) {
  const pairs = Object.entries(columns ?? {});
  if (!pairs.length) return "";
  return make("dl", { class: "columns note" }, ...pairs.flatMap(([name, value]) => [make("dt", { dir: "auto" }, name), make("dd", { dir: "auto" }, value)]));
}

async function draw() {
  const id = current();
  if (!state.details || id === null) return;
  let item;
  let near;
  try {
    item = await read(`/items/${id}`);
    near = await fetchItems((item.nearest ?? []).slice(0, 6));
  } catch (error) {
    return complain(error, draw);
  }
  if (!state.details || current() !== id) return; // the cursor has moved on
  const same = shownId === id;
  shownId = id;
  const image = same ? box.querySelector(".large") : large(item);
  const chances = Object.entries(item.probabilities ?? {}).map(([one, share]) => [Number(one), share]);
  chances.sort(([, a], [, b]) => b - a);
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.do : null;
  const tool = (name, words, digit, call) => make("button", { "data-do": name, onclick: call }, words, " ", key(digit));
  const parts = [
    make("div", { class: "title" }, make("h2", { dir: "auto" }, item.name),
      make("button", { "data-do": "close", "aria-label": "Close the details", onclick: closeDetail }, "✕")),
    image,
    isOfTexts() ? columnsOf(item) : make("p", { class: "note" }, item.width ? `${item.width} × ${item.height} pixels` : ""),
    paintTone(verdict(item), item.class ?? item.decision),
    make("div", { class: "buttons" },
      tool("similar", "Similar", "s", () => similar(id)),
      item.class === null && item.decision !== null && tool("accept", "Accept", "⏎", () => accept([id])),
      tool("unknown", "None of these", "u", () => label(0, [id])),
      item.class !== null && tool("clear", "Clear", "0", () => label(null, [id]))),
  ];
  const rest = state.project.classes.filter((one) => !chances.some(([id]) => id === one.id)).map((one) => [one.id, null]);
  if (chances.length + rest.length) {
    parts.push(make("h3", {}, chances.length ? "Probabilities; click to correct" : "Click to give a class"), make("ul", { class: "chances" },
      chance(item, 0, item.p_unknown), ...[...chances, ...rest].map(([one, share]) => chance(item, one, share))));
    if (chances.length && item.p_unknown === null) parts.push(make("p", { class: "note" }, worded("The probabilities of the classes are for the case that the picture is known.")));
  }
  if (near.length) {
    parts.push(make("h3", {}, "Most like these examples"), make("ul", { class: "near" }, ...near.map((one) =>
      paintTone(make("li", {}, make("button", { title: one.name, "aria-label": `${worded("Show pictures like")} ${shortName(one)}`, onclick: () => similar(one.id) },
        small(one.id)), isolate(one.class === null ? "" : className(one.class))), one.class ?? 0))));
  }
  box.replaceChildren(...parts);
  if (box.hidden) box.scrollTop = 0;
  box.hidden = false;
  document.body.classList.add("detailed");
  tell("layout");
  if (focused) [...box.querySelectorAll("[data-do]")].find((one) => one.dataset.do === focused)?.focus();
}

export function startDetail() {
  const soon = later(60, draw);
  on("cursor selection", () => state.details && current() !== shownId && soon());
  on("content details", () => state.details && soon());
  on("view", closeDetail);
}
