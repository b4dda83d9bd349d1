"""The course of a batch: from its events to the answers that it makes due, committed once. Knows no Spark."""
