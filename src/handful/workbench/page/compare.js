// Two runs side by side: how many pictures moved from which class to which. A click on a number shows them.

import { read } from "./api.js";
import { byId, count, isolate, make, paintTone } from "./dom.js";
import { complain } from "./notes.js";
import { className, on, show, state } from "./state.js";
import { itemCount, worded } from "./words.js";

const box = byId("compare");
let pair = null; // [first, second]; null: the last two
let drawn = "";

const time = (made) => new Date(made).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });

function choice(title, runs, chosen, choose) {
  const list = make("select", { "aria-label": title }, ...runs.map(({ id, made, is_shown }) =>
    make("option", { value: id, selected: id === chosen }, `run ${id}, ${time(made)}${is_shown ? ", shown" : ""}`)));
  list.addEventListener("change", () => choose(Number(list.value)));
  return list;
}

function table({ first, second, moves }) {
  const place = (id) => (id === 0 ? Infinity : id);
  const order = (ids) => [...new Set(ids)].sort((a, b) => place(a) - place(b));
  const [from, to] = [order(moves.map((move) => move.from)), order(moves.map((move) => move.to))];
  const many = new Map(moves.map((move) => [`${move.from} ${move.to}`, move.count]));
  const most = Math.max(...moves.map((move) => move.count));
  const name = (id) => paintTone(make("span", { class: "named" }, make("span", { class: "dot" }), isolate(className(id))), id);
  const cell = (start, end) => {
    const n = many.get(`${start} ${end}`);
    if (!n) return make("td", {}, start === end ? "·" : "");
    const words = `${itemCount(n)} moved from ${className(start)} to ${className(end)}`;
    const button = make("button", { title: words, "aria-label": `Show ${words}`, onclick: () => show({ view: `moved:${first}:${second}:${start}:${end}`, search: "" }) }, count(n));
    button.style.setProperty("--part", n / most);
    return make("td", {}, button);
  };
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "from ↓ to →"), ...to.map((id) => make("th", { scope: "col" }, name(id))))),
    make("tbody", {}, ...from.map((start) => make("tr", {}, make("th", { scope: "row" }, name(start)), ...to.map((end) => cell(start, end)))))));
}

async function draw() {
  if (state.view !== "compare" || !state.project?.run) return;
  try {
    const runs = await read("/runs");
    const there = (id) => runs.some((run) => run.id === id);
    if (runs.length < 2) {
      drawn = "";
      box.replaceChildren(make("p", { class: "note" }, "There is one run so far. After the next one, this table shows what moved."));
      return;
    }
    const [first, second] = pair && pair.every(there) ? pair : runs.slice(-2).map((run) => run.id);
    const found = await read("/compare", { first, second });
    const now = JSON.stringify([runs, found, state.project.classes.map(({ id, name }) => [id, name])]);
    if (now === drawn && box.firstChild) return;
    drawn = now;
    const choose = (a, b) => { pair = [a, b]; draw(); };
    const words = found.moved ? `${itemCount(found.moved)} moved, ${count(found.same)} stayed where they were. ${worded("Click on a number to see the pictures.")}`
      : worded("No picture moved between these runs.");
    box.replaceChildren(make("div", { class: "pair" }, choice("The first run", runs, first, (id) => choose(id, second)), " → ", choice("The second run", runs, second, (id) => choose(first, id)),
      found.moved ? make("button", { onclick: () => show({ view: `moved:${first}:${second}`, search: "" }) }, "Show all that moved") : null),
    make("p", { class: "note", id: "moved", role: "status" }, words), found.moved ? table(found) : "");
  } catch (error) {
    drawn = "";
    complain(error, draw);
  }
}

export function startCompare() {
  on("view content", draw);
}
