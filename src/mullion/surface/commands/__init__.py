"""The commands, one a file. Heavy modules are imported when a command runs, so that help comes at once."""
