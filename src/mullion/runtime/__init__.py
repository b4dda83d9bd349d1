"""The course of a batch: from its events to the answers that become due, committed once. Knows no Spark."""
