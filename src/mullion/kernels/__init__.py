"""Columns of a batch, the order of its events and lookups in tables, for both ways of computing."""
