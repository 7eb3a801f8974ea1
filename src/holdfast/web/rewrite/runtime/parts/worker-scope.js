// The same for a worker: it has no document, but asks and imports as pages do.

(function begin() {
  if (self.__hf_location) return;
  const address = self.location.pathname + self.location.search;
  const found = /^(\/[a-z0-9][a-z0-9._-]*\/(?:(?:nearest|not-newer|record\/[a-z0-9._-]+)\/)?)(\d{0,14})[a-z_]*\/(.*)$/s.exec(address);
  const told = self.__hf_scene || {};
  const scene = found
    ? { prefix: found[1], timestamp: found[2], url: found[3], home: self.location.origin, version: VERSION }
    : { ...told, version: VERSION };
  if (!scene.home) return;
  const addresses = addressesOf(self, scene);
  const scripts = scriptsOf(self, addresses);
  const { origin } = placeIn(self, scene, addresses, scripts);
  timeOf(self, scene);
  networkOf(self, scene, addresses);
  workersOf(self, scene, addresses, scripts, null);
  keepApart(self, origin, addresses.shown);
  nativeTexts(self);
  Object.defineProperty(self, "origin", { get: origin, configurable: true });
})();
