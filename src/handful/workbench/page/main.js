// The page starts here: all parts are started, then the state of the server is read.

import { cancel, hear, heard, refresh, run, undo, upload } from "./actions.js";
import { listen } from "./api.js";
import { openCheck, startCheck } from "./check.js";
import { startClasses } from "./classes.js";
import { startCompare } from "./compare.js";
import { byId, count, isolate, later, make } from "./dom.js";
import { openDetail, startDetail } from "./detail.js";
import { openExport } from "./export.js";
import { startGrid } from "./grid.js";
import { startGroups } from "./groups.js";
import { loadOrder } from "./items.js";
import { openHelp, startKeys } from "./keys.js";
import { startMap } from "./map.js";
import { complain, foundTouch, lostTouch } from "./notes.js";
import { startPicked } from "./picked.js";
import { startRunNotes } from "./run_notes.js";
import { followAddress, on, show, state } from "./state.js";
import { startThreshold } from "./threshold.js";
import { startViews } from "./views.js";
import { itemCount } from "./words.js";

const KINDS = { embed: "Computing features", solve: "Deciding" };

function drawHead() {
  const { project } = state;
  const { name, items, ready, skipped, job } = project;
  byId("name").textContent = name;
  document.title = `${name} · handful workbench`;
  const rest = [ready < items && `${count(ready)} with features`, skipped && `${count(skipped)} skipped`].filter(Boolean);
  byId("totals").textContent = [itemCount(items), ...rest].join(", ");
  for (const way of ["undo", "redo"]) {
    const button = byId(way);
    const what = project[way];
    const word = way === "undo" ? "Undo" : "Redo";
    button.disabled = !what;
    const says = what ? `${word}: ${what}` : `Nothing to ${way}`;
    if (button.title === says) continue;
    button.title = says;
    button.setAttribute("aria-label", says);
    button.replaceChildren(make("span", { class: "sign", "aria-hidden": "true" }, way === "undo" ? "↶" : "↷"), make("span", { class: "word" }, word, what ? ": " : "", isolate(what ?? "")));
  }
  const running = job?.state === "running";
  byId("job").hidden = !running;
  byId("run").disabled = running && job.kind === "solve";
  if (!running) return;
  const bar = byId("progress");
  if (job.total) {
    bar.max = job.total;
    bar.value = job.done;
  } else bar.removeAttribute("value");
  byId("job").dataset.kind = job.kind;
  const steps = job.kind === "solve" ? `: step ${count(Math.min(job.done + 1, job.total))} of ${count(job.total)}` : `: ${count(job.done)} of ${count(job.total)}`;
  const some = job.total ? steps : "";
  byId("doing").textContent = `${KINDS[job.kind] ?? "Working"}${some}`;
}

function startHead() {
  byId("undo").addEventListener("click", () => undo("undo"));
  byId("redo").addEventListener("click", () => undo("redo"));
  byId("export").addEventListener("click", openExport);
  byId("help").addEventListener("click", openHelp);
  byId("run").addEventListener("click", () => run(byId("share").value));
  byId("check").addEventListener("click", openCheck);
  byId("cancel").addEventListener("click", cancel);
  byId("add").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", async () => {
    const files = [...byId("files").files];
    byId("files").value = "";
    if (files.length) await upload(files);
  });
  const find = later(200, () => show({ view: byId("search").value && ["groups", "map", "compare"].includes(state.view) ? "all" : state.view, search: byId("search").value.trim() }));
  byId("search").addEventListener("input", find);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") byId("search").value = "";
    if (event.key === "Escape") show({ search: "" });
    if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      byId("grid").focus();
    }
  });
  on("project", drawHead);
}

startHead();
startRunNotes();
startClasses();
startViews();
startGrid(openDetail);
startPicked();
startDetail();
startThreshold();
startGroups();
startMap();
startCompare();
startCheck();
startKeys();
followAddress();
on("view", () => loadOrder());
refresh()
  .then(() => {
    document.documentElement.dataset.ready = "1";
  })
  .catch((error) => complain(error, () => location.reload()));
listen({ project: hear, progress: heard, back: () => { foundTouch(); refresh(true).catch(complain); }, lost: lostTouch });
