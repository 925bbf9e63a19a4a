// An item large, with all that is known of it. The arrow keys go to the item before or after it on the page.

const detail = byId("detail");
const stage = make("div", { class: "stage" });
const position = make("span", { class: "position" });
const stepButton = (text, step) => {
  const button = make("button", { type: "button" }, text);
  button.addEventListener("click", () => stepDetail(step));
  return button;
};
const [before, after] = [stepButton("‹ Previous", -1), stepButton("Next ›", 1)];
const findButton = make("button", { type: "button" }, "Go to its card");
const closeButton = make("button", { type: "button" }, "Close");
detail.append(stage, make("p", { class: "buttons" }, before, position, after, findButton, closeButton));
const looked = { item: null, opened: null, ids: [] };

closeButton.addEventListener("click", () => detail.close());
findButton.addEventListener("click", () => {
  looked.opened = null; // whatever was opened first: go to this one
  detail.close();
});
detail.addEventListener("click", (event) => event.target === detail && detail.close()); // beside the sheet
detail.addEventListener("close", () => looked.item !== looked.opened && goTo(looked.item)); // else the browser returns the focus
detail.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || event.target.matches("input") || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  stepDetail(step);
});

function showDetail(item) {
  if (!detail.open) {
    looked.opened = item;
    looked.ids = item.example ? groups[item.closest].examples.map(({ id }) => id) : groups.flatMap(({ grid }) => grid.ids);
  }
  drawDetail(item);
  const isOpening = !detail.open;
  if (isOpening) detail.showModal();
  if (isOpening || !detail.contains(document.activeElement) || document.activeElement === detail) closeButton.focus();
}

function stepDetail(step) {
  const id = looked.ids[looked.ids.indexOf(looked.item.id) + step];
  if (looked.ids.includes(looked.item.id) && id !== undefined) showDetail(items[id]);
}

function drawDetail(item) {
  looked.item = item;
  detail.dataset.id = item.id;
  const name = make("h2", { id: "detail-name", dir: "auto" }, ...wrapping(item.name));
  const about = make("div", {}, name, factsOf(item));
  if (item.file) about.append(make("p", { class: "note" }, make("a", { href: item.file, target: "_blank", rel: "noreferrer" }, "Open the file"), areTexts ? "" : " in its full size"));
  if (canCorrect && !item.example) about.append(make("h3", {}, "Is the label wrong? It is"), makeChooser(item));
  if (item.near.length) about.append(make("h3", {}, "Nearest examples"), nearestList(item));
  stage.replaceChildren(make("div", { class: "about" }, areTexts ? wholeText(item) : pictureOf(pictures[item.id]), about));
  stage.scrollTop = 0;
  const at = looked.ids.indexOf(item.id);
  before.disabled = at < 1;
  after.disabled = at < 0 || at === looked.ids.length - 1;
  position.textContent = at < 0 ? "" : `${count(at + 1)} of ${count(looked.ids.length)}`;
}

function factsOf(item) {
  const facts = make("dl");
  const fact = (name, ...value) => facts.append(make("dt", {}, name), make("dd", {}, ...value));
  if (item.example) fact("example of", make("bdi", {}, data.classes[item.closest] ?? "none of the classes"));
  else {
    fact("label", make("bdi", {}, labelOf(item)), item.unknown === item.unknownAtFirst ? "" : " at this threshold");
    if (item.unknown) fact("closest class", make("bdi", {}, data.classes[item.closest]));
    if (item.unknown && item.group) fact("group", make("bdi", {}, groupName(item)));
    fact("confidence", percent(sureOf(item)) || "n/a");
    if (calibrated) fact("P(unknown)", percent(item.chance) || "n/a");
    if (item.doubt) fact("worth a look", item.doubt);
    fact(scoreName, `${range.fine(item.score)} (threshold ${range.fine(now.threshold)})`);
  }
  return facts;
}

function nearestList(item) {
  const list = make("ul", { role: "list" });
  for (const near of item.near) {
    const picture = typeof near === "number" ? pictures[near] : null;
    const label = typeof near === "number" ? [make("b", {}, className(items[near].closest)), " "] : [];
    const name = areTexts ? [exampleInShort(near)] : wrapping(exampleName(near));
    list.append(make("li", { dir: "auto" }, ...(picture ? [pictureOf(picture)] : []), make("bdi", {}, ...label, ...name)));
  }
  return list;
}
