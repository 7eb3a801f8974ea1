(function ($, w, d, undefined) {
  var template = _.template('<div class="entry"><b><%- name %></b> <%= text %></div>');
  var old = w.onerror;
  w.onerror = function () { return old ? old.apply(this, arguments) : false; };
  w.greet = function (who) { $("#title").append(" of " + w.location.hostname + (who === w ? "" : "?")); };
  w.toggle = function (id) { $("#" + id).slideToggle(0); };
  w.check = function (form) { return form.who.value != ""; };
  $.fn.entries = function (url) {
    var self = this;
    $.ajax({ url: url, dataType: "jsonp", success: function (items) {
      _.each(items, function (item) { self.append(template(item)); });
      $.ajax({ url: "/api/items", cache: false, dataType: "json" }).done(function (all) {
        $("#status").load("/api/fragment #inner", function () {
          $(this).append(" " + all.length + " entries, " + eval("d.location.pathname") + ", "
            + new Function("return location.protocol")()).attr("data-ready", "");
        });
      });
    } });
    return this;
  };
  $(d).ready(function () { $("#book").entries("/api/jsonp?callback=?"); });
})(jQuery, this, document);
