// Refreshes crawls and volumes: the page is requested again, and what is new in it replaces the old. Sends forms with the
// token that was given for this tab.

const KEY = "holdfast-token";
const EVERY_MS = 1000;
const RESTING_MS = 10000;

const live = document.getElementById("live");

function credentials() {
  const token = sessionStorage.getItem(KEY);
  return token ? { headers: { Authorization: `Bearer ${token}` }, credentials: "omit" } : {};
}

async function refresh() {
  const { headers, ...rest } = credentials();
  const answer = await fetch(location.href, { ...rest, headers: { Accept: "text/html", ...headers } });
  if (!answer.ok) {
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.getElementById("live");
  if (next && next.innerHTML !== live.innerHTML && !live.contains(document.activeElement)) {
    const left = live.querySelector(".scroll")?.scrollLeft ?? 0;
    live.replaceChildren(...document.adoptNode(next).childNodes);
    live.querySelector(".scroll")?.scrollTo(left, 0);
  }
  live.dataset.live = next?.dataset.live ?? "still";
  const stop = document.querySelector("[data-stop]");
  if (stop) {
    stop.hidden = live.dataset.live !== "running";
  }
}

async function follow() {
  if (!document.hidden) {
    await refresh().catch(() => {}); // the server may be away for a moment
  }
  setTimeout(follow, live.dataset.every ?? (live.dataset.live === "running" ? EVERY_MS : RESTING_MS));
}

async function send(form) {
  const token = form.querySelector("[data-token]").value.trim();
  if (token) {
    sessionStorage.setItem(KEY, token);
  }
  const body = new URLSearchParams(new FormData(form));
  const { headers, ...rest } = credentials();
  return fetch(form.action, { method: "POST", body, ...rest, headers: { Accept: "application/json", ...headers } });
}

async function problemOf(answer) {
  let text = await answer.text();
  try {
    text = JSON.parse(text).error ?? text;
  } catch {
    // Not JSON: shown as it is.
  }
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function submit(event) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  const problem = form.querySelector("[data-problem]");
  button.disabled = true;
  problem.hidden = true;
  try {
    const answer = await send(form);
    if (answer.ok) {
      const told = await answer.json();
      location.assign(`/crawls/${encodeURIComponent(told.name)}`);
      return;
    }
    if (answer.status === 401) {
      sessionStorage.removeItem(KEY);
      form.querySelector("[data-token-field]").hidden = false;
    }
    problem.textContent = await problemOf(answer);
  } catch (error) {
    problem.textContent = `The server cannot be reached: ${error.message}`;
  }
  problem.hidden = false;
  button.disabled = false;
}

for (const form of document.querySelectorAll("form[data-writes]")) {
  form.querySelector("[data-token-field]").hidden = sessionStorage.getItem(KEY) !== null;
  form.addEventListener("submit", submit);
}
if (live) {
  setTimeout(follow, EVERY_MS);
}
