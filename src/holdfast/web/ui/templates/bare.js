// Tells the banner around the frame which page it was that cannot be shown. A frame within an archived page tells nobody.
const { url, timestamp, status, controls } = document.getElementById("missing").dataset;
if (parent === top && top !== self) top.postMessage({ holdfast: "missing", url, timestamp, status: Number(status) }, controls);
