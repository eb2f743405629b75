// Requests to the deployment's HTTP door.

export class Refusal extends Error {
  constructor(status, error, path = []) {
    super(error);
    this.status = status;
    this.path = path;
  }
}

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "same-origin" });
  } catch {
    throw new Refusal(0, "the deployment does not answer");
  }
  const text = await answer.text();
  let document = {};
  try {
    document = text ? JSON.parse(text) : {};
  } catch {
    document = { error: text };
  }
  if (!answer.ok) throw new Refusal(answer.status, document.error ?? `status ${answer.status}`, document.path);
  return document;
}

export const perform = (verb, given = {}) =>
  ask(`/control/${encodeURIComponent(verb)}`, { method: "POST", body: JSON.stringify(given) });

// Exchange the token for a cookie that scripts do not see.
export const enter = (token) =>
  ask("/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });

export function dotted(path) {
  return path.reduce(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : text ? `${text}.${part}` : part), "");
}
