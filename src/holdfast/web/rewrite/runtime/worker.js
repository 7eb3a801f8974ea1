// The service worker of the replay origin: what archived pages ask for is answered from the archive.
//
//   /main/20240102030405im_/https://a.example/x.png   asked for as it is
//   https://a.example/x.png, /x.png                   asked for at the time, and on the site, of the page that wants it
//
// Its own policy lets it connect to this origin alone, so that not even a redirect leads anywhere else. Each page is
// told how many of its parts were found and of what times they are.
"use strict";

const REPLAYED = /^(\/[a-z0-9][a-z0-9._-]*\/(?:(?:nearest|not-newer|record\/[a-z0-9._-]+)\/)?)(\d{1,14}(?:[a-z]{2}_)?|[a-z]{2}_)\/(https?:\/\/?.*)$/is;
const MODIFIERS = {
  script: "js_", audioworklet: "js_", paintworklet: "js_", style: "cs_", xslt: "cs_", image: "im_", font: "im_",
  audio: "im_", video: "im_", track: "im_", iframe: "if_", frame: "fr_", object: "oe_", embed: "oe_",
};
const WORKERS = new Set(["worker", "sharedworker", "serviceworker"]);  // the server must see that they are these
const CLIENTS_MAX = 500;
const TELL_MS = 150;
const parts = new Map();  // client -> what its parts are
let recent = null;  // the scene of the page that was opened last

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.protocol !== "http:" && url.protocol !== "https:") return;
  const isOwn = url.origin === self.location.origin;
  const isPlaced = isOwn && sceneAt(url.href) !== null;
  if (isOwn && (url.pathname.startsWith("/_hf/") || (isPlaced && WORKERS.has(event.request.destination)))) return;
  event.respondWith(event.request.mode === "navigate" ? open(event, url, isPlaced) : part(event, url, isPlaced));
});

// Collection, time and archived URL of an address; null if it has none.
function sceneAt(address) {
  if (!address || !address.startsWith(self.location.origin + "/")) return null;
  const found = REPLAYED.exec(address.slice(self.location.origin.length));
  if (!found) return null;
  const url = found[3].replace(/^(https?:\/)(?!\/)/i, "$1/");
  return { prefix: found[1], timestamp: found[2].replace(/[a-z_]+$/i, ""), url };
}

// The page that asks; one without an address of its own stands for the one that made it.
async function sceneOf(event) {
  const client = event.clientId ? await self.clients.get(event.clientId) : undefined;
  return sceneAt(client && client.url) || sceneAt(event.request.referrer) || recent;
}

function placed(scene, url, modifier) {
  let wanted = url;
  if (url.origin === self.location.origin) {
    try {
      wanted = new URL(url.pathname + url.search, new URL(scene.url).origin);
    } catch {
      return null;
    }
  }
  return `${scene.prefix}${scene.timestamp}${modifier}/${wanted.href}`;
}

function refusal(why) {
  const headers = { "Content-Type": "text/plain", "Content-Security-Policy": "sandbox" };
  return new Response(`${why}\n`, { status: 504, headers });
}

async function bodyOf(request) {
  return request.method === "GET" || request.method === "HEAD" ? undefined : request.arrayBuffer();
}

// A document: asked for with a word to the server that its parts will pass here.
async function open(event, url, isPlaced) {
  const request = event.request;
  if (!isPlaced) {
    const scene = await sceneOf(event);
    const address = scene && placed(scene, url, MODIFIERS[request.destination] || "mp_");
    return address ? Response.redirect(address, 307) : refusal(`${url.href} is not of the archive`);
  }
  recent = sceneAt(url.href);
  const headers = new Headers(request.headers);
  headers.set("X-Holdfast-Worker", request.destination || "document");
  const cache = request.cache === "only-if-cached" ? "default" : request.cache;
  return fetch(url.href, {
    method: request.method, headers, body: await bodyOf(request), redirect: "manual", mode: "same-origin",
    credentials: "include", cache, referrer: request.referrer,
  });
}

async function part(event, url, isPlaced) {
  const request = event.request;
  let response;
  try {
    response = await (isPlaced ? fetch(request) : fetch(...(await elsewhere(event, url))));
  } catch (error) {
    return isPlaced ? Response.error() : refusal(String(error));
  }
  event.waitUntil(note(event.clientId, response));
  return response;
}

// The same request, for what the archive has of it.
async function elsewhere(event, url) {
  const request = event.request;
  const scene = await sceneOf(event);
  const address = scene && placed(scene, url, MODIFIERS[request.destination] || "mp_");
  if (!address) throw new TypeError(`${url.href} is not of the archive`);
  const init = { method: request.method, headers: request.headers, body: await bodyOf(request), mode: "same-origin" };
  return [address, { ...init, credentials: "same-origin", redirect: "follow", signal: request.signal }];
}

// -- of what times the parts of a page are ---------------------------------------------------------------------------

async function note(client, response) {
  if (!client) return;
  const date = new Date(response.headers.get("Memento-Datetime") || NaN);
  const known = parts.get(client) || { earliest: "", latest: "", count: 0, missing: 0, isDue: false };
  if (!parts.has(client) && parts.size >= CLIENTS_MAX) parts.delete(parts.keys().next().value);
  parts.set(client, known);
  if (!Number.isNaN(date.getTime())) {
    const time = date.toISOString().replace(/\D/g, "").slice(0, 14);
    known.earliest = known.earliest && known.earliest < time ? known.earliest : time;
    known.latest = known.latest > time ? known.latest : time;
    known.count += 1;
  } else if (response.status >= 400) {
    known.missing += 1;
  } else {
    return;
  }
  if (!known.isDue) await tell(client, known);
}

async function tell(client, known) {
  known.isDue = true;
  await new Promise((resolve) => setTimeout(resolve, TELL_MS));
  known.isDue = false;
  const page = await self.clients.get(client);
  const { earliest, latest, count, missing } = known;
  if (page) page.postMessage({ holdfast: "parts", client, earliest, latest, count, missing });
}
