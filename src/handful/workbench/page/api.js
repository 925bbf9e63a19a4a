// The way to the server. Changes go one after the other, in the order they were made; reading need not wait.

const ROOT = "/api/v1";
let queue = Promise.resolve();

export class Refused extends Error {}

async function ask(method, path, body) {
  const form = body instanceof FormData;
  const headers = form || body === undefined ? {} : { "Content-Type": "application/json" };
  if (method !== "GET" && !form) headers["Content-Type"] = "application/json"; // asked for even without a body
  let answer;
  try {
    answer = await fetch(ROOT + path, { method, headers, body: form || body === undefined ? body : JSON.stringify(body) });
  } catch {
    throw new Refused("The workbench does not answer. Is it still running in its terminal? Nothing that was saved is lost.");
  }
  const text = await answer.text();
  let said = null;
  try {
    said = text ? JSON.parse(text) : null;
  } catch {
    said = null;
  }
  if (answer.ok) return said;
  if (answer.status === 401) throw new Refused("This page may not talk to the workbench: open the address its terminal shows.");
  throw new Refused(said?.error ?? `The workbench answered ${answer.status} to ${method} ${path}.`);
}

export const read = (path, wanted = {}) => {
  const given = Object.entries(wanted).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return ask("GET", query ? `${path}?${query}` : path);
};

export function write(method, path, body) {
  const done = queue.then(() => ask(method, path, body));
  queue = done.catch(() => {});
  return done;
}

// EventSource comes back by itself when the server does. `back` is called then: something may have been missed.
export function listen({ project, progress, back, lost }) {
  const events = new EventSource(`${ROOT}/events`);
  let gone = false;
  events.addEventListener("project", (event) => project(JSON.parse(event.data)));
  events.addEventListener("progress", (event) => progress(JSON.parse(event.data)));
  events.addEventListener("open", () => {
    if (gone) back();
    gone = false;
  });
  events.addEventListener("error", () => {
    gone = true;
    lost();
  });
  addEventListener("pagehide", () => events.close());
}
