// Elements: whatever way an address gets into one, it leads into the archive; read back, it is the archived URL.

const XLINK = "http://www.w3.org/1999/xlink";

function elementsOf(win, scene, addresses, markup) {
  const { archived, to, shown, spelled } = addresses;
  const nativeSet = win.Element.prototype.setAttribute;
  const nativeGet = win.Element.prototype.getAttribute;
  const { uncss } = markup;
  const kindOf = (element, name) => (ATTRIBUTES[element.localName.toLowerCase()] || {})[name];

  function changed(element, name, given) {
    if (element.localName === "link" && name === "href") return to(given, linkKind(element));
    if (name === "sandbox" && element.localName === "iframe") return boxed(element, String(given));
    const now = markup.value(element.localName.toLowerCase(), name, given);
    return name === "href" && element.localName === "base" ? fromHome(now) : now;
  }

  // A base counts also in a document without an address, of which nothing is relative to the archive.
  function fromHome(address) {
    return archived(address) !== null && address.startsWith("/") ? scene.home + address : address;
  }

  function boxed(frame, text) {
    const now = markup.value("iframe", "sandbox", text);
    if (now !== text) nativeSet.call(frame, "data-hf-boxed", "");
    else if (!frame.hasAttribute("data-hf-boxed")) return text;
    return now;
  }
  redefine(win.HTMLIFrameElement.prototype, "sandbox", () => ({
    set(text) { nativeSet.call(this, "sandbox", boxed(this, String(text))); },
  }));
  construct(win, "Audio", (given) => (given[0] === undefined ? given : [to(given[0], "im_")]));

  // The value of an attribute, as the page or its script gave it.
  function asGiven(element, name, text) {
    const kind = kindOf(element, name);
    return kind === "*" ? markup.unsrcset(text) : kind ? spelled(text) : text;
  }

  function linkKind(link) {
    const rel = (nativeGet.call(link, "rel") || "").toLowerCase();
    if (/modulepreload/.test(rel) || nativeGet.call(link, "as") === "script") return "js_";
    return !rel || /stylesheet/.test(rel) || nativeGet.call(link, "as") === "style" ? "cs_" : "im_";
  }

  wrap(win.Element.prototype, "setAttribute", (set) => function (name, given) {
    const now = changed(this, String(name).toLowerCase(), given);
    return now === null ? undefined : set.call(this, name, now);
  });
  wrap(win.Element.prototype, "setAttributeNS", (set) => function (space, name, given) {
    const now = changed(this, String(name).toLowerCase(), given);
    return now === null ? undefined : set.call(this, space, name, now);
  });
  wrap(win.Element.prototype, "getAttribute", (get) => function (name) {
    const text = get.call(this, name);
    const key = text === null ? "" : String(name).toLowerCase();
    if (key === "style") return uncss(text);
    if (key === "sandbox" && this.hasAttribute("data-hf-boxed")) return text.replace(/ ?allow-same-origin$/, "");
    return key ? asGiven(this, key, text) : text;
  });
  wrap(win.Element.prototype, "getAttributeNS", (get) => function (space, name) {
    const text = get.call(this, space, name);
    if (text === null || (space !== null && space !== "" && space !== XLINK)) return text;
    return asGiven(this, `${space === XLINK ? "xlink:" : ""}${name}`, text);
  });
  for (const name of ["setAttributeNode", "setAttributeNodeNS"])
    wrap(win.Element.prototype, name, (set) => function (attr) {
      const now = changed(this, attr.name.toLowerCase(), attr.value);
      if (now !== null && now !== attr.value) attr.value = now;
      return now === null ? null : set.call(this, attr);
    });
  redefine(win.Attr.prototype, "value", (get, set) => ({
    set(given) {
      const now = this.ownerElement ? changed(this.ownerElement, this.name.toLowerCase(), given) : given;
      if (now !== null) set.call(this, now);
    },
  }));

  // Properties that mirror attributes.
  const mirrored = {
    HTMLAnchorElement: ["href", "ping"], HTMLAreaElement: ["href", "ping"], HTMLBaseElement: ["href"],
    HTMLLinkElement: ["href", "integrity"], HTMLScriptElement: ["src", "integrity"],
    HTMLImageElement: ["src", "srcset", "lowsrc"], HTMLSourceElement: ["src", "srcset"], HTMLTrackElement: ["src"],
    HTMLMediaElement: ["src"], HTMLVideoElement: ["poster"],
    HTMLInputElement: ["src", "formAction"], HTMLButtonElement: ["formAction"], HTMLFormElement: ["action"],
    HTMLIFrameElement: ["src", "srcdoc"], HTMLFrameElement: ["src"], HTMLEmbedElement: ["src"],
    HTMLObjectElement: ["data"],
    HTMLBodyElement: ["background"], HTMLTableElement: ["background"],
  };
  for (const [kind, names] of Object.entries(mirrored))
    for (const name of names)
      redefine(win[kind] && win[kind].prototype, name, (get, set) => ({
        get() { return name === "srcset" ? markup.unsrcset(get.call(this)) : shown(get.call(this)); },
        set(given) {
          const tag = kind === "HTMLMediaElement" ? "video" : this.localName;
          const isLink = tag === "link" && name === "href";
          const now = isLink ? to(given, linkKind(this)) : markup.value(tag, name.toLowerCase(), given);
          if (now !== null) set.call(this, kind === "HTMLBaseElement" ? fromHome(now) : now);
        },
      }));

  for (const kind of ["HTMLMediaElement", "HTMLImageElement"])
    redefine(win[kind].prototype, "currentSrc", (get) => ({ get() { return shown(get.call(this)); } }));
  for (const kind of ["HTMLAnchorElement", "HTMLAreaElement"]) partsOfLinks(win, win[kind].prototype, addresses);
  redefine(win.SVGAnimatedString && win.SVGAnimatedString.prototype, "animVal", (get) => ({
    get() { return spelled(get.call(this)); },
  }));
  redefine(win.SVGAnimatedString && win.SVGAnimatedString.prototype, "baseVal", (get, set) => ({
    get() { return spelled(get.call(this)); },
    set(given) { set.call(this, /^https?:|^\//i.test(given) ? to(given, "im_") : given); },
  }));

  return { changed, nativeSet, nativeGet };
}

// `a.host`, `a.pathname` and the like: of the archived URL.
function partsOfLinks(win, prototype, { archived, to }) {
  const href = Object.getOwnPropertyDescriptor(prototype, "href");
  const url = (element) => {
    try {
      return new win.URL(href.get.call(element));
    } catch {
      return null;
    }
  };
  const parts = ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash", "origin"];
  for (const name of parts)
    redefine(prototype, name, (get, set) => ({
      get() { return url(this)?.[name] ?? get.call(this); },
      set: set && function (given) {
        const now = url(this);
        if (!now) return;
        now[name] = given;
        href.set.call(this, now.href);
      },
    }));
  prototype.toString = function () { return href.get.call(this); };
}
