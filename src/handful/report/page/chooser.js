// The choice of a class for an item: in a small sheet beside its card, and where the item is shown large.

const sheet = byId("chooser");

// The buttons for one item. after: called when a choice is made.
function makeChooser(item, after = () => {}) {
  const box = make("div", { class: "chooser", role: "group", "aria-label": "What it is", "data-id": item.id });
  fillChooser(box, item, after);
  box.refresh = () => {
    const chosen = box.contains(document.activeElement) ? document.activeElement.dataset.choice : undefined;
    fillChooser(box, item, after);
    if (chosen !== undefined) [...box.querySelectorAll("button")].find((button) => button.dataset.choice === chosen)?.focus();
  };
  return box;
}

function fillChooser(box, item, after) {
  const now = corrections.get(item.id);
  const choose = (name) => {
    correct(item, name);
    after();
  };
  const choice = (name, text, key, tone) => {
    const button = make("button", { type: "button", class: "choice", "aria-pressed": name === now, "data-choice": name });
    button.append(make("bdi", {}, text), ...(key ? [" ", make("kbd", {}, key)] : []));
    if (tone) setTone(button, tone);
    button.classList.add(tone ? "known" : "unknown");
    button.addEventListener("click", () => choose(name));
    return button;
  };
  const old = data.classes.map((name, k) => choice(name, name, k < 9 ? String(k + 1) : "", classTone(k, data.classes.length)));
  const added = newClasses().map((name) => choice(name, name, ""));
  const none = choice(data.unknown, "none of these", "u");
  const field = make("input", { type: "text", maxlength: MAX_NAME_LENGTH, placeholder: "a new class…", "aria-label": "Name of a new class", autocomplete: "off", dir: "auto" });
  const form = make("div", { class: "new-class" }, field, make("button", { type: "button" }, "Add"));
  const add = () => cleanName(field.value) && choose(field.value);
  form.lastChild.addEventListener("click", add);
  field.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), add()));
  const back = make("button", { type: "button", class: "back", "data-choice": "" }, "take it back ", make("kbd", {}, "Del"));
  back.addEventListener("click", () => choose(null));
  box.replaceChildren(...old, ...added, none, form, ...(now === undefined ? [] : [back]));
}

function setTone(node, { hue, tier }) {
  node.style.setProperty("--hue", hue);
  node.style.setProperty("--tier", tier);
}

function refreshChoosers() {
  for (const box of document.querySelectorAll(".chooser")) box.refresh();
}

function openChooser(item, beside, naming = false) {
  const close = () => {
    sheet.hidePopover();
    beside.focus();
  };
  sheet.replaceChildren(make("p", { class: "about-item", dir: "auto" }, ...(areTexts ? [inShort(item)] : wrapping(item.name))), makeChooser(item, close));
  sheet.showPopover();
  opener = beside;
  placeSheet();
  (naming ? sheet.querySelector("input") : sheet.querySelector("[aria-pressed=true]") ?? sheet.querySelector("button")).focus({ preventScroll: true });
}

let opener = null; // what the sheet belongs to
function placeSheet() {
  if (!sheet.matches(":popover-open")) return;
  const place = opener.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = sheet;
  const within = (value, most) => Math.max(8, Math.min(value, most - 8));
  const top = place.bottom + 6 + height > innerHeight ? place.top - height - 6 : place.bottom + 6;
  sheet.style.setProperty("left", `${within(place.left, innerWidth - width)}px`);
  sheet.style.setProperty("top", `${within(top, innerHeight - height)}px`);
}
for (const event of ["scroll", "resize"]) addEventListener(event, placeSheet, { passive: true });

// Keys while a card, or the sheet of an item, has the focus.
addEventListener("keydown", (event) => {
  const { target, key } = event;
  const holder = target.closest?.("[data-id]");
  if (!canCorrect || !holder || target.matches("input, select") || event.ctrlKey || event.altKey || event.metaKey) return;
  const item = items[holder.dataset.id];
  if (item.example) return;
  const isBack = key === "Delete" || key === "Backspace";
  const name = key === "u" || key === "U" ? data.unknown : /^[1-9]$/.test(key) ? data.classes[key - 1] : undefined;
  if (name === undefined && !isBack && key !== "n") return;
  event.preventDefault();
  if (key === "n") {
    const field = target.closest("#detail, #chooser")?.querySelector(".new-class input");
    if (field) field.focus();
    else openChooser(item, target, true);
    return;
  }
  correct(item, isBack ? null : name);
  if (sheet.contains(target)) sheet.hidePopover();
});
