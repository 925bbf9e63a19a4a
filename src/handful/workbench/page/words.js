// What the items of a project are called. The page says pictures; where the items are texts, it says texts.

import { byId, count } from "./dom.js";
import { state } from "./state.js";

export const isOfTexts = () => state.project?.kind === "texts";

// For words of the page only, never for a name: a class may be called picture.
export const worded = (words) => (isOfTexts() ? words.replaceAll("picture", "text").replaceAll("Picture", "Text") : words);

export const itemCount = (n) => worded(`${count(n)} picture${n === 1 ? "" : "s"}`);

// The words that are in the page from its start, in nodes with the attribute data-noun.
export function wordPage() {
  document.documentElement.dataset.kind = state.project.kind;
  if (!isOfTexts()) return;
  const search = byId("search");
  search.title = "Search in the texts (/)";
  search.setAttribute("aria-label", "Search in the texts");
  byId("files").accept = ".txt";
  byId("add").hidden = !state.project.can_add;
  for (const node of document.querySelectorAll("[data-noun]")) {
    node.removeAttribute("data-noun");
    for (const name of ["aria-label", "title", "placeholder"]) {
      if (node.hasAttribute(name)) node.setAttribute(name, worded(node.getAttribute(name)));
    }
    for (const child of node.childNodes) if (child.nodeType === Node.TEXT_NODE) child.data = worded(child.data);
  }
}
