// Leaving a page: by link, form, script or history, the next one is of the archive too.

function navigationOf(win, scene, addresses, place, scripts) {
  const { to, whole, archived } = addresses;
  const isWeb = (address) => /^https?:/i.test(address);

  for (const name of ["pushState", "replaceState"])
    wrap(win.History.prototype, name, (change) => function (state, title, url) {
      const rest = url === undefined || url === null ? [] : [here(url, name)];
      const result = change.call(this, state, title, ...rest);
      place.moved && place.moved();
      return result;
    });

  // The address of a URL of the same page, in its kind of frame.
  function here(url, name) {
    const now = new win.URL(place.now());
    const next = win.URL.canParse(url, addresses.base()) && new win.URL(url, addresses.base());
    if (isWeb(now.href) && (!next || next.origin !== now.origin)) {
      const where = `in a document with origin '${now.origin}' and URL '${now.href}'`;
      const text = `A history state object with URL '${next ? next.href : url}' cannot be created ${where}.`;
      throw new win.DOMException(`Failed to execute '${name}' on 'History': ${text}`, "SecurityError");
    }
    const modifier = /\/\d{0,14}([a-z]{2}_)\//.exec(win.location.pathname);
    return whole(url, modifier ? modifier[1] : "mp_");
  }

  const { open } = win;
  wrap(win, "open", () => (url, target, ...rest) =>
    opened(url === undefined || url === "" ? "" : to(scripts.inUrl(String(url))), within(target), ...rest));

  // Firefox throws where Chromium opens nothing.
  function opened(...given) {
    try {
      return open.call(win, ...given);
    } catch (error) {
      if (error.name === "InvalidAccessError") return null;
      throw error;
    }
  }

  // The topmost window of the archive is not that of the browser.
  function within(target) {
    const name = String(target ?? "").toLowerCase();
    if (win.top === win || (name !== "_top" && name !== "_parent" && name !== "_blank")) return target;
    if (name === "_parent" && place.highest !== win) return target;
    return place.highest === win || name === "_blank" ? "_self" : target;
  }

  // A link to a window of its own, which the banner's frame may not open, leads on in its place.
  function hasFrame(name, window = place.highest) {
    try {
      if (window.name === name) return true;
      for (let index = 0; index < window.length; index += 1) if (hasFrame(name, window[index])) return true;
    } catch {
      // of another origin
    }
    return false;
  }

  function retarget(element) {
    const { target } = element;
    const isNew = win.top !== win && /^[^_]/.test(target) && !hasFrame(target);
    const now = isNew ? "_self" : within(target);
    if (now !== element.target) element.target = now;
  }

  win.addEventListener("click", (event) => {
    const link = event.composedPath().find((node) => node.localName === "a" || node.localName === "area");
    if (!link) return;
    retarget(link);
    const href = link.getAttribute("href");
    if (href !== null && !(href.baseVal || "").length) link.setAttribute("href", href);
  }, true);

  function prepare(form, submitter) {
    retarget(form);
    const action = form.getAttribute("action");
    if (action !== null) form.setAttribute("action", action);
    const own = submitter && submitter.getAttribute("formaction");
    if (own !== null && own !== undefined) submitter.setAttribute("formaction", own);
  }
  win.addEventListener("submit", (event) => prepare(event.target, event.submitter), true);
  wrap(win.HTMLFormElement.prototype, "submit", (submit) => function () {
    prepare(this, null);
    return submit.call(this);
  });

  const shownBy = (get) => ({ get() { return addresses.shown(get.call(this)); } });
  for (const name of ["oldURL", "newURL"]) redefine(win.HashChangeEvent.prototype, name, shownBy);
  const destination = win.NavigationDestination && win.NavigationDestination.prototype;
  const destinationUrl = destination && Object.getOwnPropertyDescriptor(destination, "url").get;
  for (const entry of [destination, win.NavigationHistoryEntry && win.NavigationHistoryEntry.prototype])
    redefine(entry, "url", (get) => ({ get() { return get.call(this) && addresses.shown(get.call(this)); } }));
  wrap(win.Navigation && win.Navigation.prototype, "navigate", (navigate) => function (url, ...rest) {
    return navigate.call(this, whole(url), ...rest);
  });

  // Whatever else would lead out of the archive is turned round.
  win.navigation?.addEventListener("navigate", (event) => {
    const next = destinationUrl.call(event.destination);
    if (!isWeb(next) || archived(next) !== null || event.hashChange || next.startsWith(`${scene.home}/_hf/`)) return;
    if (event.cancelable) event.preventDefault();
    win.location.href = to(next);
  });
  win.addEventListener("popstate", () => place.moved && place.moved());
  win.addEventListener("hashchange", () => place.moved && place.moved());
}
