// Requests to the server. Changes are sent one after the other, in their order; reading does not wait for them.

const ROOT = "/api/v1";
let queue = Promise.resolve();

export class Refused extends Error {}

async function ask(method, path, body) {
  const form = body instanceof FormData;
  const headers = form || body === undefined ? {} : { "Content-Type": "application/json" };
  if (method !== "GET" && !form) headers["Content-Type"] = "application/json"; // required even without a body
  let answer;
  try {
    answer = await fetch(ROOT + path, { method, headers, body: form || body === undefined ? body : JSON.stringify(body) });
  } catch {
    throw new Refused("The workbench does not answer. Is it still running in its terminal? Nothing that was saved is lost.");
  }
  const text = await answer.text();
  let content = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    content = null;
  }
  if (answer.ok) return content;
  if (answer.status === 401) throw new Refused("This page has no access to the workbench: open the address that its terminal shows.");
  throw new Refused(content?.error ?? `The workbench answered ${answer.status} to ${method} ${path}.`);
}

export const read = (path, parameters = {}) => {
  const fields = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(fields).toString();
  return ask("GET", query ? `${path}?${query}` : path);
};

export function write(method, path, body) {
  const done = queue.then(() => ask(method, path, body));
  queue = done.catch(() => {});
  return done;
}

// EventSource connects again by itself when the server is back. Then `back` is called, because events may be missing.
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
