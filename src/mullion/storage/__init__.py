"""Everything that survives a crash: commits, and the files that they need."""
