// How many labels are right: as expected, or as measured by a check. Which classes are doubtful is decided in Python.

const stored = takeData("measured");
const measured = stored?.answers ? stored : null; // a check without an answer has measured nothing
const ofClass = new Map(Object.entries(measured?.by_class ?? {}));

// In words how many labels of the class are right, and whether these are doubtful; null if nothing is known.
function trustOf(k) {
  const own = ofClass.get(data.classes[k]);
  if (own) return { kind: "measured", words: own[0], doubtful: own[1] };
  const expected = data.expected[k];
  return expected && { kind: "expected", words: expected[0], doubtful: expected[1] };
}

const doubtMark = () => make("span", { class: "doubt" }, "doubtful");

function showMeasured() {
  const [line, ...more] = measured.sentences;
  const [day] = String(measured.made ?? "").split("T");
  const trust = byId("trust");
  trust.hidden = false;
  trust.classList.toggle("doubtful", measured.is_low);
  const note = [day && `Measured on ${day}.`, ...more].filter(Boolean).join(" ");
  trust.replaceChildren(
    make("b", { class: "kind" }, "Measured"), " ", make("span", { dir: "auto" }, line ?? ""), " ",
    ...(measured.is_low ? [doubtMark(), " "] : []),
    make("span", { class: "note", dir: "auto" }, note),
  );
  const table = make("table", {}, make("caption", {}, "How many labels are right, as measured"));
  for (const [k, name] of data.classes.entries()) {
    const own = ofClass.get(name);
    if (!own) continue;
    const head = make("th", { scope: "row" }, make("bdi", {}, name), ...(own[1] ? [" ", doubtMark()] : []));
    table.append(make("tr", { ...(own[1] ? { class: "doubtful" } : {}) }, head, make("td", {}, own[0])));
  }
  const figures = make("div", { class: "figures", role: "region", "aria-label": "How many labels are right", tabindex: "0" }, table);
  byId("expected")?.remove();
  if (table.rows.length) document.querySelector(".tables").prepend(figures);
}
