"""The parts of an engine below its public API: directories, answers, tables, statements, plans to explain."""
