// The keyboard: every key, what it does, and the list of them that ? shows.

import { accept, label, labelByKey, run, similar, undo } from "./actions.js";
import { byId, key, make } from "./dom.js";
import { closeDetail, openDetail } from "./detail.js";
import { openCheck } from "./check.js";
import { openSheet } from "./dialogs.js";
import { openExport } from "./export.js";
import { resizeTiles, step, toggle } from "./grid.js";
import { inGrid, select, show, state } from "./state.js";
import { viewNames } from "./views.js";
import { isOfTexts, worded } from "./words.js";

const HELP = [
  ["Label", [
    ["1 … 9", "give the selected pictures (or the one under the cursor) that class"],
    ["u", "none of these: an example of no class"],
    ["0 or ⌫", "remove your label"],
    ["⏎", "accept the decision as it is"],
    ["n", "name a new class"],
  ]],
  ["Select", [
    ["click", "select one; ctrl-click adds one; shift-click adds all between"],
    ["← ↑ → ↓", "move the cursor; with shift, also select"],
    ["space", "select or deselect the one under the cursor"],
    ["a", "select all of this view"],
    ["esc", "deselect; again: close the details"],
    ["drag", "onto a class, to label"],
  ]],
  ["Look", [
    ["d", "details of the picture under the cursor"],
    ["s", "similar pictures"],
    ["/", "search by name"],
    ["[ and ]", "previous view, next view"],
    ["m", "the map"],
    ["g", "groups of unknowns"],
    ["w", "what is worth asking"],
    ["+ and -", "larger and smaller pictures"],
  ]],
  ["Do", [
    ["r", "run"],
    ["c", "check: how many labels are right?"],
    ["z", "undo"],
    ["shift z", "redo"],
    ["e", "export"],
    ["?", "this list"],
  ]],
];

const OF_TEXTS = { "/": "search in the texts", "+ and -": "more and fewer lines of each text" };

export function openHelp() {
  const rowsOf = (rows) => (isOfTexts() ? rows.map(([keys, what]) => [keys, OF_TEXTS[keys] ?? what]) : rows);
  const parts = HELP.map(([title, rows]) => make("section", {}, make("h3", {}, title), make("dl", { class: "keys" },
    ...rowsOf(rows).flatMap(([keys, what]) => [make("dt", {}, ...keys.split(/ (or|and|…) /).map((part) => (["or", "and", "…"].includes(part) ? ` ${part} ` : make("kbd", {}, part)))), make("dd", {}, worded(what))]))));
  openSheet("Keys", make("div", { class: "help" }, ...parts));
}

function turn(by) {
  const place = viewNames.indexOf(state.view);
  show({ view: viewNames[(place + by + viewNames.length) % viewNames.length] ?? "all", search: "" });
}

const plain = {
  u: () => label(0),
  0: () => label(null),
  Backspace: () => label(null),
  Delete: () => label(null),
  Enter: () => accept(),
  r: () => run(byId("share").value),
  z: () => undo("undo"),
  Z: () => undo("redo"),
  "/": () => byId("search").focus(),
  "?": openHelp,
  a: () => {
    if (!inGrid()) return;
    select(state.order);
    byId("grid").focus({ preventScroll: true }); // so that Enter accepts them
  },
  s: () => similar(),
  d: () => (state.details ? closeDetail() : openDetail()),
  n: () => byId("new-class").focus(),
  m: () => show({ view: "map", search: "" }),
  g: () => show({ view: "groups", search: "" }),
  w: () => show({ view: "ask", search: "" }),
  c: openCheck,
  e: openExport,
  "[": () => turn(-1),
  "]": () => turn(1),
  "+": () => resizeTiles(1),
  "=": () => resizeTiles(1),
  "-": () => resizeTiles(-1),
  " ": () => inGrid() && toggle(Math.max(0, state.cursor)),
  Escape: () => (state.selected.size ? select([]) : closeDetail()),
};
const commands = { a: plain.a, z: plain.z, Z: plain.Z, y: plain.Z }; // with ctrl or the command key

function press(event) {
  const { target, key: name } = event;
  if (event.defaultPrevented || event.altKey || event.isComposing || byId("dialog").open || byId("checker").open || !state.project) return;
  const slider = target.matches?.("input[type=range]");
  if (target.matches?.("input, textarea, select") && !slider) return;
  const own = target.closest?.("button, a, summary") ? ["Enter", " "] : slider || target.matches?.("canvas, .whole") ? ["Arrow", "Home", "End", "Page"] : [];
  if (own.some((start) => name.startsWith(start))) return;
  if (event.ctrlKey || event.metaKey) {
    if (!commands[name]) return;
    event.preventDefault();
    return commands[name]();
  }
  if (/^[1-9]$/.test(name)) {
    event.preventDefault();
    return labelByKey(Number(name));
  }
  if (step(name, event.shiftKey)) {
    event.preventDefault();
    return byId("grid").focus({ preventScroll: true });
  }
  const call = plain[name] ?? plain[name.length === 1 && !event.shiftKey ? name.toLowerCase() : name];
  if (!call || (event.repeat && name !== " ")) return;
  event.preventDefault();
  call();
}

export function startKeys() {
  document.addEventListener("click", (event) => {
    // After a click on a button, keys go to the pictures again
    if (event.detail && event.target.closest?.("nav button, .chip button, .picked button, .tools button:not(#export, #help), .outdated button")) byId("grid").focus({ preventScroll: true });
  });
  document.addEventListener("keydown", press);
}
