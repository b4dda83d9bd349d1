"""What an engine is made of, below its public face: directories, answers, tables, statements, plans to explain."""
