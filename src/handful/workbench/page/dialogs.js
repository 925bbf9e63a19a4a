// Dialogs: a sheet with a title and a button to close it, and the export.

import { change } from "./actions.js";
import { byId, count, make } from "./dom.js";

const FORMATS = [
  ["csv", "CSV", "a table for any spreadsheet", true],
  ["parquet", "Parquet", "a table for pandas, polars, DuckDB", false],
  ["coco", "COCO", "JSON for training tools", false],
  ["fiftyone", "FiftyOne", "to look at the pictures there", false],
  ["label-studio", "Label Studio", "to continue labelling there", false],
];
const sheet = byId("dialog");

export function openSheet(title, ...parts) {
  sheet.replaceChildren(
    make("div", { class: "title" }, make("h2", { id: "dialog-title" }, title),
      make("button", { "aria-label": "Close", onclick: () => sheet.close() }, "✕")),
    ...parts);
  if (!sheet.open) sheet.showModal();
}

export function openExport() {
  const boxes = FORMATS.map(([value, name, what, checked]) => {
    const box = make("input", { type: "checkbox", name: "format", value, checked });
    return make("label", { class: "format" }, box, make("b", {}, name), make("span", { class: "note" }, what));
  });
  const done = make("div", { class: "exported", role: "status" });
  const go = make("button", { type: "submit", class: "main-button" }, "Export");
  const form = make("form", {}, make("fieldset", {}, make("legend", { class: "note" }, "Every picture with its label, yours or decided, as"), ...boxes),
    make("div", { class: "buttons" }, go), done);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const formats = [...new FormData(form).getAll("format")];
    if (!formats.length) {
      done.textContent = "Choose at least one format.";
      return;
    }
    go.disabled = true;
    done.textContent = "Writing…";
    const answer = await change("POST", "/export", { formats });
    go.disabled = false;
    if (!answer) {
      done.textContent = byId("error").querySelector("p")?.textContent ?? "The export failed.";
      return;
    }
    done.replaceChildren(make("p", {}, `${count(answer.files.length)} file${answer.files.length === 1 ? "" : "s"} written to`),
      make("code", { id: "exported-to", dir: "auto" }, answer.folder),
      make("ul", {}, ...answer.files.map((file) => make("li", {}, make("code", { dir: "auto" }, file)))));
  });
  openSheet("Export", form);
}
