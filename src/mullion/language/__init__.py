"""Text to queries and back: tokens, grammar, rendering. Nothing is executed here."""
