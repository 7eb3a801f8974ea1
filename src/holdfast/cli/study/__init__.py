"""`holdfast study`, `sample` and `plan`, and how their results are printed."""
