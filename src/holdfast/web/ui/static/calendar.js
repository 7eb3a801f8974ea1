// The calendar with less waiting: arrow keys go from day to day, and the captures of a time appear in place.
// Everything here is also reached by plain links.

const captures = document.getElementById("captures");
const months = document.getElementById("months");

function step(days, from, key) {
  const at = days.indexOf(from);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: days.length - 1 }[key];
  return to === undefined ? null : days[Math.min(Math.max(to, 0), days.length - 1)];
}

if (months) {
  months.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const day = event.target.closest("a.day");
    const next = day && step([...months.querySelectorAll("a.day")], day, event.key);
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
}

async function show(address, focus) {
  captures.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    captures.replaceChildren(...fresh.getElementById("captures").childNodes);
    mark(fresh);
    if (focus) captures.querySelector("h2").focus({ preventScroll: true });
    captures.scrollIntoView({ block: "nearest" });
  } catch {
    location.assign(address);
  } finally {
    captures.removeAttribute("aria-busy");
  }
}

// The day that is looked at is the one that the fresh page marks.
function mark(fresh) {
  if (!months) return;
  const current = fresh.querySelector("#months a[aria-current]");
  for (const day of months.querySelectorAll("a.day")) {
    const is = current && day.getAttribute("aria-label") === current.getAttribute("aria-label");
    if (is) day.setAttribute("aria-current", "date");
    else day.removeAttribute("aria-current");
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-period]");
  if (!link || event.button || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  show(link.href, true);
});

addEventListener("popstate", () => show(location.href, false));
