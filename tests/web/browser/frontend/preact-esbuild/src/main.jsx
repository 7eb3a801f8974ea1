import { signal } from "@preact/signals";
import { render } from "preact";
import { Link, Route, Router } from "wouter-preact";
import { useHashLocation } from "wouter-preact/use-hash-location";
import "./main.css";

const items = signal([]);
const request = new XMLHttpRequest();
request.open("GET", "/api/items");
request.responseType = "json";
request.onload = () => { items.value = request.response; };
request.send();

render(
  <Router hook={useHashLocation}>
    <p>{self.location.host.split(":")[0]} <Link href="/more">More</Link></p>
    <Route path="/">{() => items.value.length > 0 && <p data-ready>{items.value.length} items</p>}</Route>
    <Route path="/more">{() => items.value.map(({ id, text }) => <p key={id}>{text} {window.location.hash}</p>)}</Route>
  </Router>,
  document.body,
);
