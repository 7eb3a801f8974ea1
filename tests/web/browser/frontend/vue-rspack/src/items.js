export const items = await fetch(new URL("/api/items", document.baseURI)).then((response) => response.json());
