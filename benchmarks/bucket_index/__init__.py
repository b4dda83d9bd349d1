"""The paper's other way to keep a sub-index (golab 4.3.1, NoRebuild), to measure the way that Mullion takes against it.

Importing this lets a `Definition` with clustering="norebuild" make such indices.
"""

from benchmarks.bucket_index.norebuild import Bucketed
from mullion.storage.lifetime_index.index import CLUSTERINGS

CLUSTERINGS[Bucketed.kind] = Bucketed

__all__ = ["Bucketed"]
