// Messages between windows name archived origins; the banner hears where the page is and how old its parts are.

// For a window that is written to, the function that sends from this one: to whom, is checked as browsers do, but by
// archived origins. The browser takes the window whose function calls for the sender.
function postingFrom(win, scene, origin) {
  const own = win.postMessage;

  function wantedOf(target) {
    if (target === "*" || target === "/") return target === "/" ? origin() : "*";
    try {
      return new win.URL(target).origin;
    } catch {
      const text = `Failed to execute 'postMessage' on 'Window': Invalid target origin '${target}' in a call to 'postMessage'.`;
      throw new win.DOMException(text, "SyntaxError");
    }
  }

  function receiverOf(window) {
    if (window === win) return { post: own, at: origin() };
    try {
      if (window.__hf_view) return { post: window.__hf_view.native.postMessage, at: window.__hf_view.origin() };
    } catch {
      // one of both is in a sandbox: the browser tells only whether the other one is
    }
    return { post: window.postMessage, at: origin() === "null" ? null : "null" };
  }

  return (window) => ({
    postMessage(message, target, transfer) {
      if (arguments.length === 0) return own.call(window);  // for its error
      const isSet = target !== null && typeof target === "object";
      const { targetOrigin = "/", ...options } = isSet ? target : { targetOrigin: target ?? "/", transfer };
      if (!options.transfer) delete options.transfer;
      const wanted = wantedOf(String(targetOrigin));
      const { post, at } = receiverOf(window);
      if (wanted !== "*" && at !== null && wanted !== at) return undefined;
      const isAny = wanted === "*" || window === win;
      return post.call(window, message, { ...options, targetOrigin: isAny ? "*" : scene.home });
    },
  }).postMessage;
}

function messagesOf(win, scene, addresses, place) {
  const banner = win.top;
  const isHighest = place.highest === win;

  const posts = place.post(win);
  wrap(win, "postMessage", () => posts);
  redefine(win.MessageEvent.prototype, "origin", (get) => ({
    get() {
      const origin = get.call(this);
      return origin === scene.home ? sender(this) : origin;
    },
  }));

  function sender(event) {
    const { source, target } = event;
    if (win.EventSource && target instanceof win.EventSource) return new win.URL(target.url).origin;
    try {
      return source.__hf_view.origin();
    } catch {
      return source === win.parent ? new win.URL(win.document.referrer || scene.url).origin : place.origin();
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
  if (win.origin === "null") return;  // in a sandbox there is none
  const container = win.navigator.serviceWorker;
  if (!container) return;
  container.addEventListener("message", (event) => {
    if (!event.data || event.data.holdfast !== "parts") return;
    event.stopImmediatePropagation();
    take(event.data.client, event.data);
  });
  container.startMessages();
}
