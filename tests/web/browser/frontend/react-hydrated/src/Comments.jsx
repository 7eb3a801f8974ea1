import { use } from "react";

const items = fetch("/api/items", { headers: { Accept: "application/json" } }).then((response) => response.json());

export default function Comments() {
  return <ul data-ready>{use(items).map(({ id, text }) => <li key={id}>{text} ({location.pathname})</li>)}</ul>;
}
