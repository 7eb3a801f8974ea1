// Follows the volumes: the page is asked for again, and what is new in it takes the place of the old.

const EVERY_MS = 2000;
const live = document.getElementById("live");

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
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
}

async function follow() {
  if (!document.hidden) {
    await refresh().catch(() => {}); // the server may be away for a moment; the next look shows
  }
  setTimeout(follow, EVERY_MS);
}

setTimeout(follow, EVERY_MS);
