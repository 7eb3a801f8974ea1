const HtmlPlugin = require("html-webpack-plugin");

const presets = [["@babel/preset-env", { targets: "ie 11" }], "@babel/preset-react"];

module.exports = {
  mode: "development",
  devtool: "eval-source-map",
  entry: "./src/main.jsx",
  output: { publicPath: "/" },
  module: {
    rules: [
      { test: /\.jsx$/, loader: "babel-loader", options: { presets } },
      { test: /\.css$/, use: ["style-loader", "css-loader"] },
    ],
  },
  plugins: [new HtmlPlugin({ title: "Development", template: "./index.html" })],
};
