import { rspack } from "@rspack/core";

export default {
  mode: "production",
  entry: "./src/main.js",
  output: { filename: "[name].[contenthash].js", module: true, chunkFormat: "module", chunkLoading: "import" },
  experiments: { outputModule: true, css: true },
  resolve: { alias: { vue: "vue/dist/vue.esm-bundler.js" } },
  plugins: [
    new rspack.HtmlRspackPlugin({ title: "Templates", scriptLoading: "module" }),
    new rspack.DefinePlugin({ __VUE_OPTIONS_API__: true, __VUE_PROD_DEVTOOLS__: false, __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: false }),
  ],
};
