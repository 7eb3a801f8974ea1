const HtmlPlugin = require("html-webpack-plugin");
const CssPlugin = require("mini-css-extract-plugin");
const { VueLoaderPlugin } = require("vue-loader");

module.exports = {
  mode: "production",
  entry: "./src/main.js",
  output: { filename: "js/[name].[contenthash].js", publicPath: "auto" },
  module: {
    rules: [
      { test: /\.vue$/, loader: "vue-loader" },
      { test: /\.css$/, use: [CssPlugin.loader, "css-loader"] },
      { test: /\.svg$/, type: "asset/resource" },
    ],
  },
  optimization: { splitChunks: { chunks: "all", minSize: 0 }, runtimeChunk: "single" },
  plugins: [new VueLoaderPlugin(), new CssPlugin(), new HtmlPlugin({ title: "Timetable" })],
};
