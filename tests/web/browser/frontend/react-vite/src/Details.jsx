import { useEffect, useState } from "react";
import "./details.css";

export default function Details({ id }) {
  const [item, setItem] = useState(null);
  useEffect(() => {
    const url = new URL(`/api/items/${id}`, window.location);
    fetch(url).then((response) => response.json()).then(setItem);
  }, [id]);
  return item ? <article className="details" data-ready><h2>{item.name}</h2><p>{item.text}</p></article> : <p>Loading</p>;
}
