"""Scalar work over columns: typed vectors, functions, names and types of expressions, evaluation."""
