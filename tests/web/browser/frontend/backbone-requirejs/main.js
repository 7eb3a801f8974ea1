require.config({
  urlArgs: "bust=" + new Date().getTime(),
  paths: { jquery: "lib/jquery.min", underscore: "lib/underscore-umd-min", backbone: "lib/backbone-min" },
});
require(["view", "backbone"], function (View, Backbone) {
  var Router = Backbone.Router.extend({
    routes: { "": "all", "task/:id": "one" },
    all: function () { new View({ el: "#tasks" }).load(); },
    one: function (id) { document.getElementById("tasks").innerHTML = "<p>Task " + id + " of " + location.hostname + "</p>"; },
  });
  new Router();
  Backbone.history.start({ pushState: true });
  Backbone.$(document).on("click", "a", function (event) {
    event.preventDefault();
    Backbone.history.navigate(Backbone.$(this).attr("href"), { trigger: true });
  });
});
