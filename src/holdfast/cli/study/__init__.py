"""`holdfast study`, `sample` and `plan`: what the archive knows about the web, and how their results are shown."""
