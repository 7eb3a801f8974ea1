// The players parse the lists and ask for the pieces; that these are no films does not matter until they are decoded.
import { MediaPlayer } from "dashjs";
import Hls from "hls.js";

const loaded = new Set();
function note(line) {
  loaded.add(line);
  document.getElementById("log").innerHTML = [...loaded].sort().map((each) => `<li>${each}</li>`).join("");
  if (loaded.size === 5) document.body.setAttribute("data-ready", "");
}

const hls = new Hls({ enableWorker: false, maxBufferLength: 1 });
hls.on(Hls.Events.MANIFEST_LOADED, (_, { url, levels }) => note(`${new URL(url).pathname}: ${levels.length} levels`));
hls.on(Hls.Events.LEVEL_LOADED, (_, { details }) => note(`${details.fragments.length} pieces at ${new URL(details.url).pathname}`));
hls.on(Hls.Events.FRAG_LOADED, (_, { frag, payload }) => {
  note(`${new URL(frag.url).hostname} ${payload.byteLength} bytes`);
  hls.destroy();
});
hls.loadSource("/film/master.m3u8");
hls.attachMedia(document.getElementById("hls"));

const dash = MediaPlayer().create();
dash.updateSettings({ debug: { logLevel: 0 } });
dash.on("manifestLoaded", ({ data }) => note(`DASH of ${data.Period.length} period`));
dash.on("fragmentLoadingCompleted", ({ request, error }) => {
  note(`${new URL(request.url).pathname} ${error ? "failed" : "came"}`);
  dash.destroy();
});
dash.initialize(document.getElementById("dash"), "/film/film.mpd", true);
