"""When queries with SLIDE AT MOST are run, and which of them together (golab 8.4): steps, groups, costs, schedulers."""
