import "./main.css";

const place = document.body.appendChild(document.createElement("div"));
const { createApp } = await import("vue");
const { items } = await import("./items.js");

// compiled in the browser, by Function
createApp({
  data: () => ({ items, location: window.location, top: 1 }),
  template: `<h1>{{ location.hostname }} {{ top }}</h1>
    <p v-for="item in items" :key="item.id" @click="top += item.id">{{ item.text }}</p><hr data-ready>`,
}).mount(place);
