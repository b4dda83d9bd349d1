"""What sharing is worth, measured: `mullion bench windows`."""
