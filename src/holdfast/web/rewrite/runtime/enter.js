// The entrance of the replay origin: archived pages are opened when the service worker stands at the door.
// Where there is none (no TLS, private windows) they are opened too, and what the worker would answer is refused.
"use strict";

(function enter() {
  const PATIENCE_MS = 3000;
  const version = new URL(document.currentScript.src).search;
  const to = new URLSearchParams(location.search).get("to") || "";
  const isPlace = /^\/[a-z0-9][a-z0-9._-]*\/(?:(?:nearest|not-newer|record\/[a-z0-9._-]+)\/)?(?:\d{1,14}(?:[a-z]{2}_)?|[a-z]{2}_)\//.test(to);
  if (!isPlace) {
    document.getElementById("said").textContent = "This address leads to no archived page.";
    return;
  }

  let isGone = false;
  function go() {
    if (isGone) return;
    isGone = true;
    location.replace(to);
  }

  function activated(worker) {
    return new Promise((resolve) => {
      if (worker.state === "activated") resolve();
      worker.addEventListener("statechange", () => worker.state === "activated" && resolve());
    });
  }

  // Ours alone may answer for pages: one that an archived page brought in, when the server let it, goes.
  async function dismissOthers() {
    for (const each of await navigator.serviceWorker.getRegistrations()) {
      const worker = each.active || each.waiting || each.installing;
      const isOurs = worker && new URL(worker.scriptURL).pathname === "/_hf/worker.js";
      if (!isOurs || new URL(each.scope).pathname !== "/") await each.unregister();
    }
  }

  setTimeout(go, PATIENCE_MS);
  if (!("serviceWorker" in navigator)) return go();
  dismissOthers()
    .catch(() => {})
    .then(() => navigator.serviceWorker.register(`/_hf/worker.js${version}`, { scope: "/" }))
    .then((registration) => activated(registration.installing || registration.waiting || registration.active))
    .then(go, go);
})();
