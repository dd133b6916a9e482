"""What each kind of folder has to say: one module a kind, each with `section(found, notes) -> Section`."""
