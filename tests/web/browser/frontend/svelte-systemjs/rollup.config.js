import resolve from "@rollup/plugin-node-resolve";
import terser from "@rollup/plugin-terser";
import svelte from "rollup-plugin-svelte";

export default {
  input: { main: "src/main.js", other: "src/other.js" },
  output: { dir: "dist", format: "system", chunkFileNames: "[name].js" },
  plugins: [svelte({ emitCss: false, compilerOptions: { css: "injected" } }), resolve({ browser: true, exportConditions: ["svelte"] }), terser()],
};
