// What a person can do. Changes go to the server in order, and after each change the page reads the new state.

import { read, write } from "./api.js";
import { assume, forget, itemOf, loadOrder } from "./items.js";
import { calm, complain, say } from "./notes.js";
import { classOf, className, select, show, state, targets, tell } from "./state.js";
import { itemCount, worded, wordPage } from "./words.js";

let reading = false;
let again = false;
let signature = "";

// ---- The state ----------------------------------------------------------------------------------------------------

// Everything except the progress of a job. If this has not changed, the pictures have not changed.
const signatureOf = ({ job, ready, ...rest }) => JSON.stringify(rest);

export async function refresh(force = false) {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    do {
      again = false;
      take(await read("/project"), force);
    } while (again);
  } finally {
    reading = false;
  }
}

// Called for an event. If it arrives during a request, it may be older or newer than the answer: read again.
export function hear(project) {
  if (reading) again = true;
  else take(project);
}

function take(project, force = false) {
  const before = state.project;
  state.project = project;
  if (!before) wordPage();
  const now = signatureOf(project);
  const changed = force || now !== signature;
  signature = now;
  if (before?.job?.state === "running" && project.job?.state === "failed") complain(new Error(project.job.message || "The run failed."));
  if (changed) {
    forget();
    if (!before || state.view !== "all" || state.search || before.items !== project.items) loadOrder();
    else tell("details");
  }
  tell("project");
  if (changed) tell("content");
}

export function heard({ kind, done, total }) {
  if (!state.project) return;
  state.project.job = { ...state.project.job, kind, done, total, state: "running" };
  tell("project");
}

// ---- Changes -------------------------------------------------------------------------------------------------------

let latest = Promise.resolve(); // ends when the last change was made and the state was read

// Returns the answer, or null after an error message with a button to try again.
export function change(...request) {
  const done = send(...request);
  latest = Promise.all([latest, done]);
  return done;
}

async function send(method, path, body, { retry = true, force = true } = {}) {
  let answer = null;
  try {
    answer = (await write(method, path, body)) ?? {};
    calm();
  } catch (error) {
    complain(error, retry ? () => change(method, path, body, { retry, force }) : null);
  }
  await refresh(force).catch((error) => answer && complain(error, () => refresh(true)));
  return answer;
}

export async function label(id, ids = targets()) {
  if (!ids.length) return say(worded("Select pictures first: click them, or move with the arrow keys and press space."));
  assume(ids, { class: id });
  select([]);
  const answer = await change("POST", "/labels", { items: ids, class: id });
  if (!answer) return;
  const one = ids.length === 1;
  if (id === null) return say(`${itemCount(ids.length)} ${one ? "has" : "have"} no label now.`);
  say(`${itemCount(ids.length)} ${one ? "is" : "are"} now labelled ${className(id)}.`);
}

export function labelByKey(digit) {
  const one = state.project.classes.find(({ key }) => key === digit);
  if (one) return label(one.id);
  say(`No class has the key ${digit} yet.`);
}

export async function accept(ids = targets()) {
  if (!ids.length) return say(worded("Select the pictures whose decision is right, then press Enter."));
  for (const id of ids) {
    const decision = itemOf(id)?.decision ?? null;
    if (decision !== null) assume([id], { class: decision });
  }
  select([]);
  const answer = await change("POST", "/accept", { items: ids });
  if (answer) say(answer.changed ? `${itemCount(answer.changed)} accepted.` : worded("Nothing to accept: these pictures have no decision yet, or you have labelled them."));
}

export async function addClass(name) {
  const answer = await change("POST", "/classes", { name });
  if (answer) say(`Class ${answer.name} was added${answer.key ? `: key ${answer.key}` : ""}.`);
  return answer;
}

export async function removeClass(id) {
  const { name } = classOf(id);
  show({ view: "all", search: "" });
  if (await change("DELETE", `/classes/${id}`)) say(`Class ${name} and its labels were deleted. Undo brings them back.`);
}

export const editClass = (id, changes) => change("PATCH", `/classes/${id}`, changes);

export async function run(share) {
  const job = state.project?.job;
  if (job?.state === "running" && job.kind === "solve") return say("A run is in progress.");
  await change("POST", "/run", { method: "auto", outlier_share: share === "auto" ? share : Number(share) });
}

export const cancel = () => change("DELETE", "/job");

export function undo(way) {
  latest = latest.then(() => turn(way)); // z z z in a row: each one waits for the one before
  return latest;
}

async function turn(way) {
  if (!state.project?.[way]) return say(`There is nothing to ${way}.`);
  const answer = await send("POST", `/${way}`, {});
  if (answer) say(`${way === "undo" ? "Undone" : "Done again"}: ${answer.text}.`);
}

export async function promote(number, body) {
  const answer = await change("POST", `/groups/${number}/promote`, body);
  if (!answer) return answer;
  say(body.class ? `Group ${number} was added to class ${answer.name}. Run again to find the rest.`
    : `Class ${answer.name} was added, with ${itemCount(answer.examples ?? body.examples)} as examples. Run again to find the rest.`);
  return answer;
}

// Undoes the last run and the promotion before it: the result before comes back.
export async function takeBack() {
  const answer = await change("POST", "/take-back", {});
  if (answer) say(`Undone: ${answer.text}, and the run after it.`);
}

export async function upload(files) {
  const form = new FormData();
  for (const file of files) form.append("files", file);
  const answer = await change("POST", "/upload", form);
  if (!answer) return;
  say(`${itemCount(answer.added)} added.`);
  const [first] = answer.refused;
  if (first) complain(new Error(`${itemCount(answer.refused.length)} could not be added. ${first.name}: ${first.reason}.`));
}

export function similar(id = targets()[0]) {
  if (id === undefined || id === null) return say(worded("Select a picture first, then press s for similar pictures."));
  show({ view: "all", search: "", similar: id });
}
