"""The section of each kind of folder: one module a kind, each with `section(found, runs, tokens) -> Section`."""
