// The page starts here: all parts are started, then the state of the server is read.

import { cancel, hear, heard, refresh, run, takeBack, undo, upload } from "./actions.js";
import { listen } from "./api.js";
import { startClasses } from "./classes.js";
import { byId, count, isolate, later, make, pictures } from "./dom.js";
import { openDetail, startDetail } from "./detail.js";
import { openExport } from "./dialogs.js";
import { startGrid } from "./grid.js";
import { startGroups } from "./groups.js";
import { loadOrder } from "./items.js";
import { openHelp, startKeys } from "./keys.js";
import { startMap } from "./map.js";
import { complain, foundTouch, lostTouch } from "./notes.js";
import { startPicked } from "./picked.js";
import { followAddress, on, show, state } from "./state.js";
import { startThreshold } from "./threshold.js";
import { startViews } from "./views.js";

const KINDS = { embed: "Computing features", solve: "Deciding" };

function drawHead() {
  const { project } = state;
  const { name, items, ready, skipped, job } = project;
  byId("name").textContent = name;
  document.title = `${name} · handful workbench`;
  const rest = [ready < items && `${count(ready)} with features`, skipped && `${count(skipped)} skipped`].filter(Boolean);
  byId("totals").textContent = [pictures(items), ...rest].join(", ");
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
  const sentence = project.run?.sentence ?? "";
  if (byId("said").textContent !== sentence) byId("said").textContent = sentence; // setting it makes a screen reader read it aloud
  drawNotice(project);
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

// After a promotion that changed more than expected: what changed, and a button to go back.
function drawNotice({ run: last, undo: step, job }) {
  const box = byId("notice");
  const text = last?.notice ?? "";
  const back = Boolean(step?.startsWith("group ")) && job?.state !== "running";
  const now = JSON.stringify([text, back, last?.id]);
  if (box.dataset.drawn === now) return;
  box.dataset.drawn = now;
  box.hidden = !text;
  const how = back ? make("button", { onclick: () => takeBack(byId("share").value) }, "Undo the promotion and run again") : null;
  box.replaceChildren(make("p", { dir: "auto" }, text), ...(text && how ? [how] : []));
}

function startHead() {
  byId("undo").addEventListener("click", () => undo("undo"));
  byId("redo").addEventListener("click", () => undo("redo"));
  byId("export").addEventListener("click", openExport);
  byId("help").addEventListener("click", openHelp);
  byId("run").addEventListener("click", () => run(byId("share").value));
  byId("cancel").addEventListener("click", cancel);
  byId("add").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", async () => {
    const files = [...byId("files").files];
    byId("files").value = "";
    if (files.length) await upload(files);
  });
  const find = later(200, () => show({ view: byId("search").value && ["groups", "map"].includes(state.view) ? "all" : state.view, search: byId("search").value.trim() }));
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
startClasses();
startViews();
startGrid(openDetail);
startPicked();
startDetail();
startThreshold();
startGroups();
startMap();
startKeys();
followAddress();
on("view", () => loadOrder());
refresh()
  .then(() => {
    document.documentElement.dataset.ready = "1";
  })
  .catch((error) => complain(error, () => location.reload()));
listen({ project: hear, progress: heard, back: () => { foundTouch(); refresh(true).catch(complain); }, lost: lostTouch });
