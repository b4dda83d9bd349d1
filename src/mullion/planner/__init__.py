"""From the algebra to shared plans, with a reason for each choice; EXPLAIN."""
