// The histogram of scores and the slider that cuts it; the server decides again when it stops.

import { change } from "./actions.js";
import { read } from "./api.js";
import { byId, count, later } from "./dom.js";
import { complain } from "./notes.js";
import { on, state } from "./state.js";

const SVG = "http://www.w3.org/2000/svg";
const STEPS = 1000;
const slider = byId("threshold");
let edges = [0, 1];
let drawn = "";
let moving = false;

function svg(parent, tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return parent.appendChild(node);
}

const low = () => edges[0];
const high = () => edges[edges.length - 1];
const at = (step) => low() + ((high() - low()) * step) / STEPS;
const share = (value) => Math.min(1, Math.max(0, (value - low()) / (high() - low() || 1)));
const text = (value) => value.toFixed(high() - low() > 20 ? 1 : 3);

// All bars are drawn in both colours; the threshold moves the edge between the two clips.
function bars({ known, unknown }) {
  const box = byId("histogram");
  const all = known.map((n, place) => n + unknown[place]);
  const most = Math.max(1, ...all);
  const path = all.map((n, place) => (n ? `M${place + 0.08} 100V${100 - Math.max(4, (97 * n) / most)}h.84V100z` : "")).join("");
  box.setAttribute("viewBox", `0 0 ${all.length} 100`);
  box.replaceChildren();
  for (const side of ["known", "unknown"]) {
    svg(svg(box, "clipPath", { id: `clip-${side}` }), "rect", { y: 0, height: 100 });
    svg(box, "path", { d: path, class: side, "clip-path": `url(#clip-${side})` });
  }
  svg(box, "line", { y1: 0, y2: 100, class: "cut", "vector-effect": "non-scaling-stroke" });
}

function cut(value) {
  const box = byId("histogram");
  const [known, unknown] = box.querySelectorAll("rect");
  if (!known) return;
  const width = edges.length - 1;
  const x = share(value) * width;
  known.setAttribute("x", 0);
  known.setAttribute("width", x);
  unknown.setAttribute("x", x);
  unknown.setAttribute("width", width - x);
  for (const end of ["x1", "x2"]) box.querySelector("line").setAttribute(end, x);
  byId("cut").textContent = text(value);
}

function words() {
  const { counts } = state.project.run;
  byId("split").textContent = `${count(counts.labelled)} labelled, ${count(counts.unknown)} unknown`;
  slider.setAttribute("aria-valuetext", `${byId("cut").textContent}: ${byId("split").textContent}`);
}

async function draw() {
  const { run } = state.project;
  byId("dial-empty").hidden = Boolean(run);
  byId("dial-full").hidden = !run;
  if (!run) {
    drawn = "";
    byId("cut").textContent = "";
    return;
  }
  const now = JSON.stringify([run.id, run.counts, run.threshold]);
  if (now === drawn || moving) return;
  drawn = now;
  try {
    const histogram = await read("/histogram");
    edges = histogram.edges;
    bars(histogram);
    slider.min = 0;
    slider.max = STEPS;
    slider.step = 1;
    slider.value = Math.round(share(histogram.threshold) * STEPS);
    cut(histogram.threshold);
    words();
  } catch (error) {
    drawn = "";
    complain(error, draw);
  }
}

async function send() {
  const mine = slider.value;
  await change("POST", "/threshold", { threshold: at(Number(mine)) });
  if (slider.value !== mine) return; // the slider has moved since: a later call sends its value
  moving = false;
  draw();
}

export function startThreshold() {
  byId("dial").open = matchMedia("(min-width: 60rem)").matches;
  const soon = later(150, send);
  slider.addEventListener("input", () => {
    moving = true;
    cut(at(Number(slider.value)));
    soon();
  });
  on("project", draw);
}
