"""What is registered: streams, tables, queries, synopses."""
