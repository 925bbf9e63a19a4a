// What is said of the run: its result, how far to trust it, whether it is out of date, and what a promotion did.

import { run, takeBack } from "./actions.js";
import { byId, make } from "./dom.js";
import { on, state } from "./state.js";

// Setting a text makes a screen reader read it aloud: only if it is new.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function draw() {
  const { run: last, job } = state.project;
  setText(byId("said"), last?.sentence ?? "");
  const trust = last?.trust;
  byId("trust").hidden = !last;
  byId("trust").classList.toggle("measured", Boolean(trust?.is_measured));
  setText(byId("trust-text"), trust?.sentence || (last ? "How many labels are right is not known: check a few." : ""));
  drawOutdated(last, job);
  drawNotice(last, job);
}

// Labels have changed since the run: the button makes a new one.
function drawOutdated(last, job) {
  const box = byId("outdated");
  const text = job?.state === "running" && job.kind === "solve" ? "" : (last?.outdated ?? "");
  if (box.dataset.drawn === text) return;
  box.dataset.drawn = text;
  box.hidden = !text;
  box.replaceChildren(...(text ? [make("p", {}, text), make("button", { onclick: () => run(byId("share").value) }, "Run again")] : []));
}

// After a promotion that changed more than expected: what changed, and a button to go back.
function drawNotice(last, job) {
  const box = byId("notice");
  const text = last?.notice ?? "";
  const back = Boolean(last?.can_take_back) && job?.state !== "running";
  const now = JSON.stringify([text, back, last?.id]);
  if (box.dataset.drawn === now) return;
  box.dataset.drawn = now;
  box.hidden = !text;
  const how = back ? make("button", { onclick: takeBack }, "Undo the promotion and this run") : null;
  box.replaceChildren(make("p", { dir: "auto" }, text), ...(text && how ? [how] : []));
}

export function startRunNotes() {
  on("project", draw);
}
