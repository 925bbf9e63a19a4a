// The page: a list of cards for each class, the map, the controls, and what changes with the threshold.

const MARGIN = 700; // pixels above and below the window in which cards are made

// ---- Groups ----------------------------------------------------------------------------------------------------------

const groups = [...data.classes, data.unknown].map((name, k) => makeGroup(name, k));
const aside = groups[groups.length - 1];

function makeGroup(name, k) {
  const unknown = k === data.classes.length;
  const examples = items.filter((item) => item.example && item.closest === k);
  const total = make("small");
  const cards = make("ul", { role: "list", class: "cards" });
  const strip = make("ul", { role: "list", class: "examples", "aria-label": `Examples of ${unknown ? "none of the classes" : name}` });
  const empty = make("p", { class: "nothing" }, `No ${thing} here at this threshold.`);
  const trust = unknown ? null : trustOf(k);
  const right = make("small", { class: "right" }, trust ? `${trust.kind === "measured" ? "measured: " : ""}${trust.words}` : "");
  const marks = trust?.doubtful ? [" ", doubtMark()] : [];
  const heading = make("h2", { id: `h${k}` }, make("bdi", {}, name), " ", total, ...(trust ? [" ", right] : []), ...marks);
  const section = make("section", { id: `g${k}`, class: unknown ? "unknown" : "known", "aria-labelledby": `h${k}` });
  section.append(heading, ...wordsLine(data.words[k]), ...(examples.length ? [strip] : []), ...(unknown ? [kinds] : []), cards, empty);
  const sum = make("b");
  const link = make("li", { class: section.className }, make("a", { href: `#g${k}` }, make("bdi", {}, name), " ", ...(marks.length ? [doubtMark(), " "] : []), sum));
  if (!unknown) {
    const key = make("li", { class: "known" }, make("a", { href: `#g${k}` }, make("bdi", {}, name)));
    for (const node of [section, link, key]) setTone(node, classTone(k, data.classes.length));
    byId("class-key").append(key);
    brighten(key, k);
  }
  brighten(link, k);
  byId("groups").append(section);
  byId("links").append(link);
  return { k, section, cards, strip, empty, total, right, sum, examples, size: 0, grid: new CardList(cards, cardOf) };
}

// While a link to a class is pointed at, the map shows the points of the class alone.
function brighten(link, k) {
  for (const [event, value] of [["mouseenter", k], ["mouseleave", null], ["focusin", k], ["focusout", null]]) {
    link.addEventListener(event, () => {
      now.bright = value;
      map.draw();
    });
  }
}

// ---- The map -------------------------------------------------------------------------------------------------------

const points = items.filter((item) => Number.isFinite(item.x) && Number.isFinite(item.y));
for (const axis of ["x", "y"]) {
  const [low, high] = points.reduce(([a, b], p) => [Math.min(a, p[axis]), Math.max(b, p[axis])], [Infinity, -Infinity]);
  for (const item of points) item[axis] = high > low ? (item[axis] - low) / (high - low) : 0.5;
}
const map = new PointMap(byId("points"), byId("tip"), points, data.classes, {
  look: (item) => ({
    kind: item.example ? "example" : item.unknown ? "unknown" : "known",
    dim: !matches(item) || (now.bright !== null && now.bright !== (item.unknown ? aside.k : item.closest)),
  }),
  describe: (tip, item) => {
    const label = item.example ? ["example of ", data.classes[item.closest] ?? "none of the classes"] : ["", labelOf(item)];
    const score = item.example ? "" : `, ${scoreName} ${range.text(item.score)}`;
    const lines = make("div", {}, make("p", { class: "name", dir: "auto" }, ...wrapping(item.name)));
    if (areTexts) lines.append(excerptOf(item));
    lines.append(make("p", {}, label[0], make("bdi", {}, label[1]), score));
    tip.replaceChildren(...(pictures[item.id] ? [pictureOf(pictures[item.id])] : []), lines);
  },
  open: goTo,
});

// Scrolls to the item's card and gives it the focus.
function goTo(item) {
  if (!matches(item)) {
    byId("filter").value = "";
    find("");
    byId("only").checked = now.only = false;
    refresh();
  }
  const group = item.unknown ? aside : groups[item.closest];
  const from = item.example ? group.section : group.cards;
  const above = item.example ? innerHeight / 4 : innerHeight / 2 - group.grid.pitch / 2;
  const top = scrollY + from.getBoundingClientRect().top + (item.example ? 0 : group.grid.top(item.id));
  scrollTo({ top: top - above, behavior: "instant" });
  drawCards();
  const place = item.example ? group.strip.children[group.examples.indexOf(item)] : made.get(item.id).node;
  place.querySelector("button").focus({ preventScroll: !item.example });
  place.classList.remove("found");
  void place.offsetWidth; // start the flash again
  place.classList.add("found");
}

// ---- Drawing -------------------------------------------------------------------------------------------------------

const moveCut = drawHistogram(byId("histogram"), pile.map((item) => item.score), range.low, range.high);
const probe = make("ul", { class: "cards probe", "aria-hidden": "true" });
probe.inert = true;
byId("groups").append(probe);
let size = { columns: 1, pitch: 1, gap: 0 };

// Every card has the height of the probe. So a list has its height without its cards.
function measure() {
  if (!pile.length) return;
  if (!probe.firstChild) {
    probe.append(makeCard(pile[0]));
    probe.querySelectorAll("img").forEach((img) => img.removeAttribute("src"));
  }
  const style = getComputedStyle(probe);
  const gap = parseFloat(style.rowGap);
  size = { columns: style.gridTemplateColumns.split(" ").length, gap, pitch: probe.firstChild.offsetHeight + gap };
  for (const group of groups) group.grid.measure(size.columns, size.pitch, size.gap);
}

function drawCards() {
  const tops = groups.map(({ cards }) => cards.getBoundingClientRect().top); // read all, then write all
  groups.forEach(({ grid, strip, examples }, n) => {
    grid.look(tops[n], innerHeight, MARGIN);
    grid.draw();
    if (examples.length && !strip.firstChild && Math.abs(tops[n]) < innerHeight + MARGIN) {
      strip.append(...examples.map((item) => make("li", {}, thumbButton(item))));
    }
  });
  if (made.size > 800) for (const [id, { node }] of made) if (!node.isConnected) made.delete(id);
}

// The pictures on either side of the threshold, which would move next.
function drawEdge() {
  const scored = byScore.filter((item) => !Number.isNaN(item.score));
  const known = scored.filter((item) => !item.unknown).slice(-3);
  const unknown = scored.filter((item) => item.unknown).slice(0, 3);
  const side = (list, name) => make("div", { class: name, role: "group" },
    make("span", { class: "note" }, name === "known" ? "barely labelled" : "barely unknown"),
    ...list.map((item) => thumbButton(item)));
  byId("edge").replaceChildren(side(known, "known"), side(unknown, "unknown"));
  byId("edge").hidden = thing === "item" || !scored.length;
}

// After the threshold, a filter or the order changed: which items are in which group, and in which order.
function assign() {
  for (const group of groups) Object.assign(group, { size: 0 }).grid.ids = [];
  let moved = 0;
  for (const item of pile) {
    item.unknown = decide(item);
    moved += item.unknown !== item.unknownAtFirst;
  }
  const doubts = markDoubts(data.classes.length);
  for (const side of ["known", "unknown"]) {
    for (const item of orders[now.order][side]) {
      if (item.unknown !== (side === "unknown")) continue;
      const group = item.unknown ? aside : groups[item.closest];
      group.size += 1;
      if (matches(item)) group.grid.ids.push(item.id);
    }
  }
  return { moved, doubts };
}

function refresh() {
  const anchor = groups.find(({ section }) => section.getBoundingClientRect().bottom > 160)?.section;
  const before = anchor?.getBoundingClientRect().top;
  const { moved, doubts } = assign();
  const filtered = Boolean(now.find) || now.only;
  const unknown = aside.size;
  const totals = `${count(pile.length - unknown)} labelled, ${count(unknown)} unknown`;
  byId("counts").textContent = totals;
  byId("value").textContent = range.fine(now.threshold);
  byId("threshold").setAttribute("aria-valuetext", `${range.fine(now.threshold)}: ${totals}`);
  byId("reset").hidden = now.threshold === firstThreshold;
  byId("moved").textContent = moved ? `${count(moved)} moved` : "";
  const matchCount = groups.reduce((sum, { grid }) => sum + grid.ids.length, 0);
  byId("found").textContent = now.find ? `${things(matchCount)} found` : "";
  byId("doubts").textContent = count(doubts);
  byId("nothing").hidden = matchCount > 0 || (pile.length > 0 && !filtered);
  byId("nothing").textContent = !pile.length ? "The pile is empty."
    : now.find ? `No ${thing} has this ${areTexts ? "in it or " : ""}in its name.` : `No ${thing} is worth a look.`;
  for (const group of groups) {
    const visible = group.grid.ids.length;
    group.sum.textContent = count(group.size);
    group.total.textContent = filtered ? `${count(visible)} of ${things(group.size)}` : things(group.size);
    if (group === aside) group.total.append(" set aside");
    if (group.examples.length) group.total.append(`, ${count(group.examples.length)} example${group.examples.length === 1 ? "" : "s"}`);
    group.right.hidden = now.threshold !== firstThreshold; // it is said of the labels as they were made
    group.section.hidden = filtered && !visible;
    group.empty.hidden = visible > 0;
    group.grid.measure(size.columns, size.pitch, size.gap);
  }
  const share = range.share(now.threshold);
  moveCut(share);
  byId("groups").style.setProperty("--cut", `${100 * share}%`);
  byId("histogram").setAttribute("aria-label",
    `Histogram of the ${scoreName}s of ${things(pile.length)}, cut at ${range.fine(now.threshold)}: ${totals}`);
  byId("points").setAttribute("aria-label",
    `Map of ${things(points.length)}: ${totals}, ${count(items.length - pile.length)} examples. The arrow keys move from point to point, Enter goes to the card.`);
  drawEdge();
  markStrips();
  // Groups above may have grown or shrunk: what the user looks at must not move on the screen.
  if (anchor && scrollY > 0) scrollBy({ top: anchor.getBoundingClientRect().top - before, behavior: "instant" });
  drawCards();
  map.draw();
}

// Calls a function at most once for each frame.
function eachFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}
const soon = eachFrame(refresh);

// Rows of text as RFC 4180 describes. Text that a spreadsheet would compute gets an apostrophe in front, as in all CSV
// files of handful (utils/csv_file.py).
function csv(rows) {
  const isFormula = (value) => /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(value) && !/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(value);
  const plain = (value) => (isFormula(value) ? `'${value}` : value);
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const cell = (value) => quoted(plain(value));
  return rows.map((row) => row.map((value) => cell(String(value))).join(",") + "\n").join("");
}

function download(name, content, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// ---- Controls ------------------------------------------------------------------------------------------------------

const slider = byId("threshold");
slider.max = STEPS;
slider.value = Math.round(range.share(firstThreshold) * STEPS);
slider.disabled = !pile.length;
slider.addEventListener("input", () => {
  now.threshold = range.at(Number(slider.value));
  soon();
});
byId("reset").setAttribute("aria-label", `Reset the threshold to ${range.fine(firstThreshold)}`);
byId("reset").addEventListener("click", () => {
  now.threshold = firstThreshold;
  slider.value = Math.round(range.share(firstThreshold) * STEPS);
  refresh();
  slider.focus();
});
byId("filter").addEventListener("input", (event) => {
  find(event.target.value);
  soon();
});
byId("only").addEventListener("change", (event) => {
  now.only = event.target.checked;
  refresh();
});
byId("order").addEventListener("change", (event) => {
  now.order = event.target.value;
  refresh();
});
byId("download").addEventListener("click", () => {
  const text = (value) => (Number.isNaN(value) ? "" : value);
  const rows = pile.map((item) => [
    item.name, labelOf(item), data.classes[item.closest], text(sureOf(item)),
    ...(calibrated ? [text(item.chance)] : []), text(item.score),
    ...(strips.length ? [(item.unknown && item.group) || ""] : []),
  ]);
  const head = ["path", "label", "closest", "confidence", ...(calibrated ? ["p_unknown"] : []), scoreName.replace(" ", "_")];
  if (strips.length) head.push("group");
  download("labels.csv", csv([head, ...rows]));
});

byId("low").textContent = `${range.text(range.low)} known`;
byId("high").textContent = `unknown ${range.text(range.high)}`;
byId("scale").textContent = calibrated
  ? `The slider runs over the doubt, P(unknown) beside P(closest class): above the threshold ${aThing} is set aside as unknown, at 0.5 where unknown is more probable than the closest class. ${data.chances}`
  : data.probability
  ? `The doubt is the probability that ${aThing} is of none of the classes, beside that of its closest class. Above the threshold it is set aside as unknown.`
  : `These outlier scores are ranks, not probabilities: only their order has a meaning. The slider runs over the scores, from ${range.text(range.low)} to ${range.text(range.high)}; above the threshold ${aThing} is set aside as unknown.`;
const lost = items.length - points.length;
byId("map-note").textContent = `${things(points.length)}; those that look alike lie close together` +
  (lost ? `; ${things(lost)} without a place` : "");
byId("map").hidden = !points.length;
document.body.classList.toggle("bare", thing === "item");
document.body.classList.toggle("texts", areTexts);
if (areTexts) document.body.style.setProperty("--lines", linesOfCards());
document.body.classList.toggle("foldered", pile.some((item) => item.name.includes("/")));

new ResizeObserver(eachFrame(() => {
  measure();
  drawCards();
})).observe(byId("groups"));
addEventListener("scroll", eachFrame(drawCards), { passive: true });
addEventListener("beforeprint", () => { // on paper there are all cards
  for (const { grid } of groups) {
    Object.assign(grid, { first: 0, last: grid.ids.length });
    grid.draw();
  }
});
addEventListener("afterprint", drawCards);
if (measured) showMeasured();
startCorrections();
measure();
refresh();
document.documentElement.dataset.ready = "";
