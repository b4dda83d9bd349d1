"""Summaries of streams: how often each value came, zone by zone of time, exactly or as a sketch."""
