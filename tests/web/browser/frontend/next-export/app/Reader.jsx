"use client";
import { usePathname } from "next/navigation";
import { useEffect, useState } from "react";

export default function Reader() {
  const [items, setItems] = useState([]);
  const path = usePathname();
  useEffect(() => {
    fetch("/api/items").then((response) => response.json()).then(setItems);
  }, []);
  if (!items.length) return <p>…</p>;
  return <p data-ready>{window.location.hostname}{path}: {items.map(({ name }) => name).join(", ")}</p>;
}
