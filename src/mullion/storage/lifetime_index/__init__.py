"""Results on disk: an index of rows with different lifetimes, clustered by a key (golab 2.3.4, 4).

| file | what |
|---|---|
| partitioning | which sub-index a row belongs to: waves, doubly partitioned; chronological, round-robin |
| rebuild | a sub-index that an update writes anew |
| snapshot | the sub-indices after one update, for readers |
| index | updates, commits, checkpoints |
"""

from mullion.storage.lifetime_index.index import Definition, LifetimeIndex, UpdateCounts
from mullion.storage.lifetime_index.partitioning import Calendar, DoublyPartitioned, wave_by_expiry, wave_by_insertion
from mullion.storage.lifetime_index.rows import END, START

__all__ = [
    "END",
    "START",
    "Calendar",
    "Definition",
    "DoublyPartitioned",
    "LifetimeIndex",
    "UpdateCounts",
    "wave_by_expiry",
    "wave_by_insertion",
]
