// Keeps the banner true while one goes about in the archived page. The page in the frame is a stranger: only messages of
// its origin and window count, and whatever they say is checked by the server or shown as text. It may say that it is
// another page of its own host. If it says that it is of another host, that page is opened anew, with its banner: so a
// host stands in the banner only if the server put a page of it into the frame.

const banner = document.getElementById("banner");
const frame = document.getElementById("page");
const part = (id) => document.getElementById(id);
const TIME = /^\d{14}$/;
const SETTLED_MS = 300;
const PATIENCE_MS = 1000;

let shown = { url: banner.dataset.url, timestamp: banner.dataset.timestamp };
let captured = banner.dataset.captured;  // the time of the capture, which may be before the one that is shown
let asked = 0;
let arrivals = 0;  // messages that told where the frame is
let isDoubtful = false;

addEventListener("message", (event) => {
  if (event.origin !== banner.dataset.replay || event.source !== frame.contentWindow) return;
  const told = event.data;
  if (!told || typeof told !== "object") return;
  if (told.holdfast === "at") arrive(told);
  if (told.holdfast === "parts") compareParts(told);
  if (told.holdfast === "missing") miss(told);
});

function arrive({ url, timestamp, title }) {
  if (typeof url !== "string" || !/^https?:/i.test(url) || url.length > 16384 || !TIME.test(timestamp)) return;
  arrivals += 1;
  if (hostOf(url) !== hostOf(shown.url)) return openAnew(url, timestamp);
  if (typeof title === "string" && title.trim()) document.title = `${title.trim().slice(0, 200)} · Holdfast`;
  if (url === shown.url && timestamp === shown.timestamp && !isDoubtful) return;
  isDoubtful = false;
  shown = { url, timestamp };
  part("coherence").hidden = true;  // until the new page tells of its parts
  look(url, timestamp);
}

// The frame shows that something is not archived or may not be shown. If that is true, the page that helps on is opened
// in its place; if the page is known after all, and only its file is away, the banner tells of it as of any other.
async function miss({ url, timestamp }) {
  if (typeof url !== "string" || url.length > 16384 || !/^\d{0,14}$/.test(timestamp)) return;
  const page = URL.canParse(url) ? new URL(url) : null;  // with no '..' left, by which it could lead elsewhere
  if (!page || !/^https?:$/.test(page.protocol)) return;
  page.hash = "";
  arrivals += 1;
  if (hostOf(page.href) !== hostOf(shown.url)) return openAnew(page.href, timestamp);
  shown = { url: page.href, timestamp };
  part("coherence").hidden = true;
  const status = await look(page.href, timestamp);
  if (status === 404 || status === 451) location.replace(pageOf(page.href, timestamp));
}

// The page with the banner for an archived page; null if its address is none. It has no '..' left, by which it could lead
// to other pages of ours.
function pageOf(url, timestamp) {
  if (!URL.canParse(url)) return null;
  const { collection, pick } = banner.dataset;
  const place = pick && timestamp ? `${collection}/${pick}` : collection;
  return new URL(`/${place}/${timestamp || "*"}/${new URL(url).href}`, location.origin);
}

function openAnew(url, timestamp) {
  const page = pageOf(url, timestamp);
  const isHere = page && page.pathname + page.search === location.pathname + location.search;
  if (page && !isHere) location.replace(page);
}

function hostOf(url) {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^www\d*\./, "").replace(/\.$/, "") : "";
}

// What is loaded and does not tell where it is, is no page: a drawing or a text, of whatever host. A page tells so before
// it is loaded, and once more at that moment, which is heard a little later.
let before = 0;  // messages until the last load, with those of its moment
let settling = 0;
frame.addEventListener("load", () => {
  const last = before;
  before = arrivals;
  clearTimeout(settling);
  settling = setTimeout(() => { before = arrivals; }, SETTLED_MS);
  setTimeout(() => arrivals && arrivals === last && doubt(), PATIENCE_MS);
});

function doubt() {
  isDoubtful = true;
  say("The address may be another.", "What is shown does not tell its address: it may be another than the one above.", true);
}

// One statement, the same at every width, and what is behind it for those who click.
function say(statement, why, isWarning) {
  const note = part("coherence");
  part("apart").textContent = statement;
  part("why").textContent = why;
  note.hidden = !statement;
  note.classList.toggle("warn", isWarning);
}

// Shows what the server knows of a capture; returns the status of its answer, 0 if it is of no use any more.
async function look(url, timestamp) {
  const number = ++asked;
  const { collection, pick = "" } = banner.dataset;
  const query = new URLSearchParams({ url, timestamp, collection, pick });
  const answer = await fetch(`/api/near?${query}`, { headers: { Accept: "application/json" } });
  if (number !== asked) return 0;
  if (answer.ok) tell(await answer.json());
  return answer.status;
}

function tell(near) {
  captured = near.timestamp;
  part("address").value = near.address;
  part("time").value = near.timestamp;
  const time = document.createElement("time");
  time.dateTime = iso(near.timestamp);
  time.textContent = near.words;
  part("date").replaceChildren(time);
  part("mark").textContent = near.mark_words;
  part("position").textContent = near.position ? `, ${near.position} of ${near.captures}` : "";
  part("upto").textContent = near.upto ? `, the last up to ${near.upto}` : "";
  part("calendar").href = near.calendar;
  part("alone").href = banner.dataset.replay + near.framed;
  lead("previous", near.previous, "Previous: ");
  lead("next", near.next, "Next: ");
  lead("compare", near.compare, "Compare with ");
  history.replaceState(null, "", near.path);
}

function lead(id, step, words) {
  const link = part(id);
  if (step) {
    link.href = step.path;
    link.title = words + step.words;
    link.removeAttribute("aria-disabled");
  } else {
    link.removeAttribute("href");
    link.removeAttribute("title");
    link.setAttribute("aria-disabled", "true");
  }
}

// The times of a page and its parts, which may be far from each other, and what of it is missing.
function compareParts({ earliest, latest, missing }) {
  const times = [captured, earliest, latest].filter((each) => TIME.test(each)).sort();
  const [first, last] = [times[0], times.at(-1)];
  const seconds = (Date.parse(iso(last)) - Date.parse(iso(first))) / 1000;
  const isFar = seconds > Number(banner.dataset.warnSeconds);
  const lost = missing > 0 ? Number(missing) : 0;
  const told = [];
  if (seconds > 0) told.push(`Parts ${span(seconds)} apart`);
  if (lost) told.push(`${lost} missing`);
  const why = [`This page was captured on ${moment(captured)}.`];
  if (seconds > 0) why.push(`It is shown with parts captured from ${moment(first)} to ${moment(last)}, the nearest there are.`);
  if (lost) why.push(lost === 1 ? "One part is not archived." : `${lost} parts are not archived.`);
  if (isFar) why.push("The page may never have looked like this.");
  say(told.join(", "), why.join(" "), isFar);
}

function moment(digits) {
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const options = { day: "numeric", month: "long", year: "numeric", ...time, timeZone: "UTC" };
  return `${new Intl.DateTimeFormat("en-GB", options).format(new Date(iso(digits))).replace(" at ", ", ")} UTC`;
}

function iso(digits) {
  return digits.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/, "$1-$2-$3T$4:$5:$6Z");
}

const UNITS = [[31536000, "year"], [2592000, "month"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// In the largest unit of which there is one, and never more than is true.
function span(seconds) {
  const [size, name] = UNITS.find(([size]) => seconds >= size);
  const number = Math.floor(seconds / size);
  return `${seconds % size ? "over " : ""}${number} ${name}${number === 1 ? "" : "s"}`;
}

// Hiding, and back again: the focus goes along.
part("hide").hidden = false;
part("hide").addEventListener("click", () => toggle(true));
part("show").addEventListener("click", () => toggle(false));

function toggle(hides) {
  banner.hidden = hides;
  part("show").hidden = !hides;
  part(hides ? "show" : "hide").focus();
}
