// The check: one picture at a time with the label of the run; a person says whether it is right. Each answer is stored at
// once. Answers are no labels, until the button at the end makes labels of them.

import { change, undo } from "./actions.js";
import { read } from "./api.js";
import { byId, count, isolate, key, make, paintTone, partOf, percent } from "./dom.js";
import { large } from "./face.js";
import { fetchItems } from "./items.js";
import { complain, say } from "./notes.js";
import { className, on, state } from "./state.js";
import { isOfTexts } from "./words.js";

const MORE = 10; // pictures that are asked for at a time
const box = byId("checker");
let wanted = MORE; // answers
let check = null; // what GET /check gave
let skipped = new Set();
let shownId = null; // the picture on the screen; null: the result
let busy = false;

export async function openCheck() {
  if (!state.project?.run) return say("Run first: then the labels can be checked.");
  [skipped, check, wanted] = [new Set(), null, MORE];
  if (!(await load())) return;
  const given = check.order.filter((id) => answered().has(id)).length;
  if (given >= wanted) wanted = given; // it was finished before: the result comes first
  if (!box.open) box.showModal();
  await step();
}

const answered = () => new Map(check.answers.map(({ item, answer }) => [item, answer]));

async function load() {
  try {
    check = await read("/check", { count: Math.min(1000, wanted + skipped.size) });
    return true;
  } catch (error) {
    complain(error, openCheck);
    return false;
  }
}

// The next picture, or the result if there are enough answers.
async function step() {
  if (!(await load())) return;
  const given = answered();
  const next = check.order.find((id) => !given.has(id) && !skipped.has(id));
  const done = check.order.filter((id) => given.has(id)).length;
  shownId = done < wanted && next !== undefined ? next : null;
  if (shownId === null) return drawResult();
  const [item] = await (isOfTexts() ? read(`/items/${shownId}`).then((one) => [one]) : fetchItems([shownId])).catch(() => []);
  if (item && box.open && item.id === shownId) drawQuestion(item, done);
}

async function send(answer) {
  if (busy || shownId === null) return;
  busy = true;
  const sent = await change("POST", "/check", { run: check.run, item: shownId, answer });
  busy = false;
  if (!sent) box.close(); // the message behind it says why
  else await step();
}

async function back() {
  if (!state.project.undo?.startsWith("check")) return;
  await undo("undo");
  skipped = new Set();
  await step();
}

function skip() {
  if (shownId === null) return;
  skipped.add(shownId);
  step();
}

async function more() {
  wanted = check.order.filter((id) => answered().has(id)).length + MORE;
  await step();
}

async function useAnswers() {
  box.close();
  const answer = await change("POST", "/check/use", {});
  if (answer) say(`${count(answer.changed)} answer${answer.changed === 1 ? " is" : "s are"} now a label. Run again to use ${answer.changed === 1 ? "it" : "them"}.`);
}

// ---- Drawing -------------------------------------------------------------------------------------------------------

function head(text) {
  return make("div", { class: "title" }, make("h2", { id: "check-title" }, text), make("button", { "aria-label": "Leave the check", onclick: () => box.close() }, "✕ ", key("esc")));
}

function drawQuestion(item, done) {
  const { classes } = state.project;
  const bar = make("progress", { max: wanted, value: done, "aria-hidden": "true" });
  const name = item.decision ? className(item.decision) : "none of these";
  const sure = percent(item.confidence);
  const question = paintTone(make("p", { class: "question", role: "status" }, "Is this ", isolate(name), "?", make("small", {}, sure ? ` ${sure} sure` : "")), item.decision ?? 0);
  const tool = (value, words, digit, call) => make("button", { "data-answer": value, onclick: call }, words, " ", key(digit));
  const others = classes.filter(({ id }) => id !== item.decision).map(({ id, name: other, key: digit }) =>
    paintTone(make("button", { class: "other", "data-answer": id, onclick: () => send(id) }, key(digit ?? "·"), " ", isolate(other)), id));
  box.replaceChildren(head("Check"), make("p", { class: "at" }, `${count(done + 1)} of ${count(wanted)}`, bar), large(item), question,
    make("div", { class: "buttons yes-no" }, tool("right", "Yes", "y", () => send("right")), tool("wrong", "No", "n", () => send("wrong")),
      tool("skip", "Skip", "s", skip), state.project.undo?.startsWith("check") && tool("back", "Back", "z", back)),
    make("div", { class: "buttons others" }, make("span", { class: "note" }, "No, it is"), ...others,
      item.decision !== 0 && tool("0", "none of these", "u", () => send(0))),
    make("p", { class: "note file-name", dir: "auto" }, item.name));
  box.focus();
}

function drawResult() {
  const { trust } = state.project.run;
  const usable = check.usable;
  const more_ = trust.more_to_halve;
  const rows = trust.classes.map((one) => {
    const range = make("span", { class: "range" }, make("span", { class: "between" }), make("span", { class: "value" }));
    range.style.setProperty("--low", one.low);
    range.style.setProperty("--high", one.high);
    range.style.setProperty("--value", one.value);
    return paintTone(make("li", {}, isolate(className(one.class)), range, make("i", {}, partOf(one))), one.class);
  });
  box.replaceChildren(head("Check"), make("p", { class: "result", id: "check-result", role: "status" }, trust.is_measured ? trust.sentence : "Nothing was answered: the trust in the labels stays as it was."),
    ...trust.details.map((text) => make("p", { class: "note" }, text)),
    rows.length ? make("ul", { class: "ranges", "aria-label": "The part of the labels that are right, by class" }, ...rows) : "",
    make("div", { class: "buttons" },
      more_ ? make("button", { id: "check-more", class: "main-button", onclick: more }, `Check ${MORE} more`) : null,
      usable ? make("button", { id: "check-use", onclick: useAnswers }, `Use the answers as examples (${count(usable)})`) : null,
      state.project.undo?.startsWith("check") ? make("button", { onclick: back }, "Back ", key("z")) : null,
      make("button", { onclick: () => box.close() }, "Done")),
    make("p", { class: "note" }, "Answers belong to this run. They are no labels, unless you use them as examples."));
  box.focus();
}

function press(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
  const name = event.key.toLowerCase();
  const own = event.target.closest?.("button") ? ["enter", " "] : [];
  if (own.includes(name) || event.repeat) return;
  const digit = /^[1-9]$/.test(name) && state.project.classes.find((one) => one.key === Number(name));
  const calls = { y: () => send("right"), n: () => send("wrong"), u: () => send(0), s: skip, z: back };
  const call = digit ? () => send(digit.id) : calls[name];
  if (!call) return;
  event.preventDefault();
  event.stopPropagation();
  call();
}

export function startCheck() {
  box.addEventListener("keydown", press);
  box.addEventListener("close", () => {
    [shownId, check] = [null, null];
    byId("grid").focus({ preventScroll: true });
  });
  // Another run, also by undo in another window: its check begins again
  on("project", () => box.open && check && state.project.run?.id !== check.run && box.close());
}
