"""The sliced way: partials for each slice, the synopses over them, and the answers of windows from these."""
