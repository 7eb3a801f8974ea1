import Chart from "chart.js/auto";
import { json, scaleLinear, select } from "d3";
import L from "leaflet";
import "leaflet/dist/leaflet.css";

const items = await json("/api/items");
const across = scaleLinear([0, 4], [0, 390]);
select("#bars").selectAll("rect").data(items).join("rect").attr("y", (_, at) => at * 35).attr("height", 30)
  .attr("width", ({ id }) => across(id)).attr("fill", "steelblue");
select("#bars").selectAll("text").data(items).join("text").attr("x", 5).attr("y", (_, at) => at * 35 + 20)
  .text(({ name }) => name);
new Chart(document.getElementById("lines"), {
  type: "line",
  data: { labels: items.map(({ name }) => name), datasets: [{ label: "ids", data: items.map(({ id }) => id) }] },
  options: { animation: false, responsive: false },
});
const map = L.map("map", { zoomAnimation: false, fadeAnimation: false }).setView([0, 0], 1);
const tiles = L.tileLayer("/tiles/tile.png?{z}-{x}-{y}", { attribution: location.hostname }).addTo(map);
L.marker([0, 0]).addTo(map).bindPopup("The middle").openPopup();
tiles.once("load", () => document.body.setAttribute("data-ready", ""));
