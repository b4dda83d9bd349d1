"""The tables of an engine, and what each stream or group of relations has seen of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mullion.algebra.streams import Table
from mullion.catalog.catalog import Catalog
from mullion.runtime.lookup_tables import RunTables
from mullion.service.directories import Directories
from mullion.spark.session import adopt
from mullion.spark.tables import TableStore, static_frame
from mullion.spark.types import columns_from_spark
from mullion.storage.files import CommittedFiles

if TYPE_CHECKING:
    from mullion.spark.types import DataFrame, SparkSession


class Tables:
    def __init__(
        self, catalog: Catalog, directories: Directories, session: Callable[[], SparkSession], *, strict: bool
    ) -> None:
        self._catalog, self._directories, self._session, self._strict = catalog, directories, session, strict
        self._frames: dict[str, DataFrame] = {}
        self._stores: dict[str, TableStore] = {}

    def add(self, name: str, rows: Any) -> None:
        """Name a static DataFrame, or a pyarrow or pandas table."""
        frame = static_frame(self._session(), name, rows)
        self._catalog.add_table(Table(name, columns_from_spark(frame.schema), "frame").check())
        self._frames[name] = adopt(self._session(), frame)

    def of_run(self, reader: str) -> RunTables:
        """The tables as a run sees them. Spark is asked when they are read."""
        return RunTables(
            at=lambda name, batch: self.store_of(reader).current(name, batch),
            at_reading=lambda name, batch: self.store_of(reader).at_reading(name, batch),
            files=lambda batch: self.store_of(reader).files_after(batch),
            forget=lambda batch: self.store_of(reader).forget(batch),
            has_changed=lambda name: any(name in store.changed for store in self._stores.values()),
        )

    def store_of(self, reader: str) -> TableStore:
        """The rows of tables as the batches of a stream, or the steps of relations, see them."""
        if reader not in self._stores:
            directory = self._directories.directory(reader)
            files = None if directory is None else CommittedFiles(directory)
            self._stores[reader] = TableStore(self._session, {}, files, strict=self._strict)
        store = self._stores[reader]
        store.tables, store.frames = self._catalog.tables, self._frames
        return store
