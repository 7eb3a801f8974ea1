angular.module("shop", ["ngRoute"]).config(["$routeProvider", "$locationProvider", function ($routeProvider, $locationProvider) {
  $locationProvider.html5Mode(true);
  $routeProvider
    .when("/", { templateUrl: "/list.html", controller: "list" })
    .when("/items/:id", { templateUrl: "/item.html", controller: "item" })
    .otherwise({ template: "<p data-ready>Nothing</p>" });
}]).controller("list", ["$scope", "$http", "$location", function ($scope, $http, $location) {
  $scope.location = $location;
  $http.get("/api/items").then(function (got) { $scope.items = got.data; });
}]).controller("item", ["$scope", "$http", "$routeParams", function ($scope, $http, $routeParams) {
  $http.get("/api/items/" + $routeParams.id).then(function (got) { $scope.item = got.data; });
}]);
