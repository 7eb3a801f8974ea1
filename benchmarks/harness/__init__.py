"""The harness that every benchmark runs in: corpus, child processes, clock, repeats, targets, report, chart, command.

A benchmark is a package beside this one. Its `command` reads options into a plan, its `run` carries the plan out and
returns an outcome, and its `report` turns plan and outcome into a `harness.report.Report`: tables, JSON, targets and a
chart, all printed and written here.
"""
