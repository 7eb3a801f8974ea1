// Renders the page here, as a server would, and bundles what takes it over in the browser.
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, minify: true, jsx: "automatic", define: { "process.env.NODE_ENV": '"production"' } };
await build({ ...common, entryPoints: ["src/server.jsx"], platform: "node", format: "esm", outfile: "work/server.mjs",
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' } });
const client = await build({
  ...common, entryPoints: ["src/client.jsx"], format: "esm", splitting: true, outdir: "dist/static",
  entryNames: "[name]-[hash]", metafile: true,
});
const entry = Object.entries(client.metafile.outputs).find(([, { entryPoint }]) => entryPoint)[0];
const { page } = await import("./work/server.mjs");
writeFileSync("dist/index.html", page(entry.replace("dist", "")));
