"""Pure functions from events to partials and the compiled loops below them, for the driver and for Spark's workers."""
