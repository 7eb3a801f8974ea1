import { copyFileSync, mkdirSync } from "node:fs";
import resolve from "@rollup/plugin-node-resolve";
import terser from "@rollup/plugin-terser";
import svelte from "rollup-plugin-svelte";

mkdirSync("dist", { recursive: true });
copyFileSync("index.html", "dist/index.html");

export default {
  input: "src/main.js",
  output: { dir: "dist/build", format: "es", chunkFileNames: "[name]-[hash].js", sourcemap: true },
  plugins: [
    svelte({ emitCss: false, compilerOptions: { css: "injected" } }),
    resolve({ browser: true, exportConditions: ["svelte"] }),
    terser(),
  ],
};
