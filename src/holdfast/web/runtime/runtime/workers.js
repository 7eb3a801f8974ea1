// Workers: the server puts this runtime before those that have an archived URL; those that the page makes of its own
// text get it here. A page cannot put a service worker of its own into the place of ours.

function workersOf(win, scene, addresses) {
  const { whole } = addresses;
  const URL = win.URL;
  const create = URL.createObjectURL.bind(URL);
  const made = new Map();  // addresses of blobs -> the blobs
  let sceneScript = "";

  wrap(URL, "createObjectURL", () => (object) => {
    const address = create(object);
    if (object instanceof win.Blob) made.set(address, object);
    return address;
  });
  wrap(URL, "revokeObjectURL", (revoke) => (address) => {
    made.delete(String(address));
    return revoke.call(URL, address);
  });

  function script(parts) {
    return create(new win.Blob(parts, { type: "text/javascript" }));
  }

  // The text of a worker behind what it has to have run first.
  function prepared(text, isModule) {
    const runtime = JSON.stringify(`${scene.home}/_hf/worker-runtime.js?${scene.version}`);
    const told = `self.__hf_scene=${JSON.stringify(scene)};`;
    if (!isModule) return script([told, `importScripts(${runtime});\n`, text]);
    sceneScript ||= script([told]);
    return script([`import ${JSON.stringify(sceneScript)};import ${runtime};\n`, text]);
  }

  function source(given, options) {
    const url = String(given);
    const isModule = Boolean(options) && options.type === "module";
    if (made.has(url)) return prepared(made.get(url), isModule);
    if (/^\s*data:/i.test(url)) return prepared(textOf(win, url.trim()), isModule);
    return whole(url, "js_");
  }

  for (const name of ["Worker", "SharedWorker"])
    construct(win, name, ([url, options, ...rest]) => [source(url, options), options, ...rest]);
  wrap(win, "importScripts", (load) => (...urls) => load.apply(win, urls.map((url) => whole(url, "js_"))));

  const container = win.ServiceWorkerContainer && win.ServiceWorkerContainer.prototype;
  const refusal = () => new win.DOMException("Service workers of archived pages do not run.", "SecurityError");
  wrap(container, "register", () => () => Promise.reject(refusal()));
  wrap(container, "getRegistration", () => () => Promise.resolve(undefined));
  wrap(container, "getRegistrations", () => () => Promise.resolve([]));
  redefine(container, "ready", () => ({ get: () => new Promise(() => {}) }));
  redefine(container, "controller", () => ({ get: () => null }));
}

function textOf(win, url) {
  const [, head, body] = /^data:([^,]*),(.*)$/is.exec(url) || ["", "", ""];
  const plain = win.unescape(body);
  return /;\s*base64\s*$/i.test(head) ? win.atob(plain) : plain;
}
