define(["backbone", "underscore", "require", "module"], function (Backbone, _, require, module) {
  var Tasks = Backbone.Collection.extend({ url: "/api/items" });
  return Backbone.View.extend({
    template: _.template("<ul data-ready><% _.each(tasks, function (task) { %><li><a href='/task/<%= task.id %>'><%- task.name %></a></li><% }) %></ul>"),
    load: function () {
      var self = this;
      this.tasks = new Tasks();
      this.listenTo(this.tasks, "sync", function () {
        self.$el.html(self.template({ tasks: self.tasks.toJSON() }) + "<p>" + module.id + "</p>");
      });
      this.tasks.fetch();
    },
  });
});
