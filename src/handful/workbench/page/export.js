// The export: formats, sorted pictures, and where it goes, a folder or the browser's downloads.

import { change } from "./actions.js";
import { byId, count, make } from "./dom.js";
import { openSheet } from "./dialogs.js";
import { state } from "./state.js";
import { itemCount, worded } from "./words.js";

const FORMATS = [
  ["csv", "CSV", "a table for any spreadsheet", true],
  ["parquet", "Parquet", "a table for pandas, polars, DuckDB", false],
  ["coco", "COCO", "JSON for training tools", false],
  ["fiftyone", "FiftyOne", "to look at the pictures there", false],
  ["label-studio", "Label Studio", "to continue labelling there", false],
  ["sorted", "Sorted folders", "a copy of each picture, in a folder for each class", false],
];

export function openExport() {
  const boxes = FORMATS.filter(([value]) => state.project.formats.includes(value)).map(([value, name, what, checked]) => {
    const box = make("input", { type: "checkbox", name: "format", value, checked });
    return make("label", { class: "format" }, box, make("b", {}, name), make("span", { class: "note" }, worded(what)));
  });
  const folder = make("input", { id: "export-folder", name: "folder", dir: "auto", autocomplete: "off", spellcheck: "false",
    placeholder: "the folder of this project", "aria-describedby": "folder-note" });
  const done = make("div", { class: "exported", role: "status" });
  const go = make("button", { type: "submit", class: "main-button" }, "Export");
  const download = make("button", { type: "button", id: "download" }, "Download");
  const form = make("form", {}, make("fieldset", {}, make("legend", { class: "note" }, worded("Every picture with its label, yours or decided, as")), ...boxes),
    make("label", { class: "folder" }, make("b", {}, "Into"), folder),
    make("p", { class: "note", id: "folder-note" }, `A new or empty folder in your home folder, or beside ${state.project.name}. Nothing is overwritten.`),
    make("div", { class: "buttons" }, go, download), done);
  const chosen = () => {
    const formats = [...new FormData(form).getAll("format")];
    if (!formats.length) done.textContent = "Choose at least one format.";
    return formats.length ? formats : null;
  };
  download.addEventListener("click", () => {
    const formats = chosen();
    if (!formats) return;
    const link = make("a", { href: `/api/v1/download?formats=${formats.join(",")}`, download: "" });
    form.append(link);
    link.click();
    link.remove();
    done.textContent = "The browser gets the file.";
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const formats = chosen();
    if (!formats) return;
    go.disabled = true;
    done.textContent = "Writing…";
    const answer = await change("POST", "/export", { formats, folder: folder.value.trim() || null }, { retry: false });
    go.disabled = false;
    if (!answer) {
      done.textContent = byId("error").querySelector("p")?.textContent ?? "The export failed.";
      return;
    }
    done.replaceChildren(make("p", {}, `${count(answer.files.length)} file${answer.files.length === 1 ? "" : "s"} written to`),
      make("code", { id: "exported-to", dir: "auto" }, answer.folder),
      make("ul", {}, ...answer.files.map((file) => make("li", {}, make("code", { dir: "auto" }, file)))),
      answer.missing ? make("p", { class: "note" }, `${itemCount(answer.missing)} could not be copied: the files are gone.`) : "");
  });
  openSheet("Export", form);
}
