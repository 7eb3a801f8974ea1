// Messages between windows name archived origins; the banner hears where the page is and how old its parts are.

function messagesOf(win, scene, addresses, place) {
  const native = win.postMessage;
  const banner = win.top;
  const isHighest = place.highest === win;

  wrap(win, "postMessage", () => function (message, target, transfer) {
    const options = target && typeof target === "object" ? { ...target } : { targetOrigin: target ?? "/", transfer };
    const wanted = options.targetOrigin ?? "/";
    if (/^https?:/i.test(wanted) && new win.URL(wanted).origin !== place.location.origin) return;  // meant for another
    if (!options.transfer) delete options.transfer;
    native.call(win, message, { ...options, targetOrigin: wanted === "/" || wanted === "*" ? "*" : scene.home });
  });
  redefine(win.MessageEvent.prototype, "origin", (get) => ({
    get() {
      const origin = get.call(this);
      return origin === scene.home ? sender(this) : origin;
    },
  }));

  function sender(event) {
    try {
      return event.source.__hf_location.origin;
    } catch {
      return place.location.origin;
    }
  }

  if (isHighest && win.parent !== win)
    for (const name of ["parent", "frameElement"]) {
      const value = name === "parent" ? win : null;
      Object.defineProperty(win, name, { get: () => value, set() {}, configurable: true, enumerable: true });
    }
  win.addEventListener("message", (event) => {
    if (scene.controls && event.source === banner && banner !== win) event.stopImmediatePropagation();  // not for pages
  }, true);
  if (isHighest) reports(win, scene, place, banner);
  else partsTo(win, (client, parts) => place.highest.__hf_parts(client, parts));
}

function reports(win, scene, place, banner) {
  const tell = (message) => {
    if (banner !== win && scene.controls) banner.postMessage(message, scene.controls);
  };
  const at = () => tell({ holdfast: "at", url: place.now(), timestamp: scene.timestamp, title: win.document.title });
  place.moved = at;
  at();  // before any script of the page, which could keep back the rest
  win.addEventListener("DOMContentLoaded", at);
  win.addEventListener("load", at);

  const all = new Map();  // of this page and of each frame in it
  const parts = (client, one) => {
    all.set(client, one);
    const known = [...all.values()].filter((each) => each.count);
    tell({
      holdfast: "parts",
      earliest: known.map((each) => each.earliest).sort()[0] ?? "",
      latest: known.map((each) => each.latest).sort().at(-1) ?? "",
      count: [...all.values()].reduce((sum, each) => sum + each.count, 0),
      missing: [...all.values()].reduce((sum, each) => sum + each.missing, 0),
    });
  };
  Object.defineProperty(win, "__hf_parts", { value: parts });
  partsTo(win, parts);
}

// Our service worker tells each page of the times that its parts are of.
function partsTo(win, take) {
  const container = win.navigator.serviceWorker;
  if (!container) return;
  container.addEventListener("message", (event) => {
    if (!event.data || event.data.holdfast !== "parts") return;
    event.stopImmediatePropagation();
    take(event.data.client, event.data);
  });
  container.startMessages();
}
