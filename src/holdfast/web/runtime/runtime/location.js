// `location` and `top` as archived scripts see them; their texts name these by `__hf_location` and `__hf_top`.

function placeIn(win, scene, addresses) {
  const native = win.location;
  const { archived, to, shown } = addresses;
  const isPage = typeof win.document === "object";
  const location = Object.create(isPage ? win.Location.prototype : win.WorkerLocation.prototype);

  function now() {
    return archived(native.href) ?? (isPage ? native.href : scene.url);
  }

  function address(url) {
    return String(url).startsWith("#") ? url : scene.home + addresses.whole(url).replace(scene.home, "");
  }

  function go(url, how) {
    const text = String(url);
    if (/^\s*javascript:/i.test(text)) return void (native.href = text);
    native[how](schemeOf(text) ? text : address(text));
  }

  function schemeOf(text) {
    return /^\s*(?!https?:)[a-z][a-z0-9+.-]*:/i.test(text);
  }

  function part(name) {
    return {
      enumerable: true,
      get: () => new win.URL(now())[name],
      set(value) {
        if (name === "hash") return void (native.hash = value);
        const url = new win.URL(now());
        url[name] = value;
        go(url.href, "assign");
      },
    };
  }

  const parts = ["protocol", "host", "hostname", "port", "pathname", "search", "hash", "origin"];
  for (const name of parts) Object.defineProperty(location, name, part(name));
  Object.defineProperties(location, {
    href: { enumerable: true, get: now, set: (url) => go(url, "assign") },
    assign: { enumerable: true, value: (url) => go(url, "assign") },
    replace: { enumerable: true, value: (url) => go(url, "replace") },
    reload: { enumerable: true, value: () => native.reload() },
    toString: { enumerable: true, value: now },
    valueOf: { value: () => location },
    ancestorOrigins: { enumerable: true, get: () => ({ length: 0, contains: () => false, item: () => null }) },
  });

  const highest = isPage ? highestOf(win) : win;
  const kinds = new Set(["[object Window]", "[object HTMLDocument]", "[object Document]", "[object XMLDocument]"]);
  kinds.add("[object WorkerGlobalScope]").add("[object DedicatedWorkerGlobalScope]");

  // Of a window or a document, a view that tells the archived place; anything else is given back.
  function of(value) {
    if (value === win || (isPage && value === win.document)) return ownView;
    if (value === null || typeof value !== "object") return value;
    try {
      return kinds.has(Object.prototype.toString.call(value)) ? viewOf(value) : value;
    } catch {
      return value;
    }
  }

  function viewOf(other) {
    const window = other.defaultView || other;
    return {
      get location() { return window.__hf_location || other.location; },
      set location(url) { window.__hf_location ? (window.__hf_location = url) : (other.location = to(url)); },
      get top() { return window.__hf_top || other.top; },
    };
  }

  const ownView = {
    get location() { return location; },
    set location(url) { location.href = url; },
    get top() { return highest; },
    set top(_) {},
  };

  const define = (name, given) => Object.defineProperty(win, name, { configurable: false, ...given });
  define("__hf_location", { get: () => location, set: (url) => (location.href = url) });
  define("__hf_top", { get: () => highest, set() {} });
  define("__hf_of", { value: of });
  define("__hf_to", { value: (reference) => to(reference, "js_") });
  return { location, highest, now, shown };
}

// The window that archived pages take for the topmost: the banner above it is of another origin.
function highestOf(win) {
  let at = win;
  for (;;) {
    const above = at.parent;
    try {
      if (above === at || !above.__hf_location) return at;
    } catch {
      return at;
    }
    at = above;
  }
}
