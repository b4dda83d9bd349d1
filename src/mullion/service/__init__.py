"""What an engine is made of, below its public face: places, answers, tables, statements, plans to explain."""
