"""DISTINCT over windows: each value once, as long as any row has it.

| input | expiry | form |
|---|---|---|
| monotonic, weakest, weak | upa | delta*: the results, and the youngest row of each |
| monotonic, weakest, weak | nt, direct | naive: the whole input, and the results |
| strict | any | counting: how many rows each value has |

The first two give the same results: a result lives the life of one row, and when that ends, the youngest row of the
value takes over (golab 3.2.2, 3.5.2). The third gives one result from the first to the last moment that a value is
there, whose end only a negative tuple can tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Distinct
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.arrays import Codes, Index, Times, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.coding.dictionary import decoded_schema
from mullion.expressions.readonly import frozen
from mullion.instants import FOREVER, NEVER
from mullion.language.query import Column
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import key_function
from mullion.operators.kernels.distinct import CodedRows, Outlook, StoredRows, delta_star, naive
from mullion.operators.kernels.expiry_heap import ExpiryHeap
from mullion.operators.kernels.stays import Stays
from mullion.operators.multiplicities import Multiplicities
from mullion.operators.positioned_rows import PositionedRows
from mullion.operators.punctuated import Punctuated
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, Retractions, TimedRows, in_time_order
from mullion.options import Expiry


@implements(Distinct)
class DistinctOperator(Operator):
    """Each row once. A result has the id of the row whose life it lives, or began with."""

    def __init__(self, node: Distinct, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        (below,) = inputs
        self.schema, self.width = decoded_schema(below.schema), below.width
        self.form = _form_of(node.input.pattern, construction.expiry)(self.schema, self.width, construction.expiry)
        columns = [Column(name) for name in node.types]
        ending = Punctuated.of(node.input, columns) if isinstance(self.form, DeltaStar) else None
        self._ending = ending
        self._key = key_function([] if ending is None else ending.chosen(columns), node.types)

    def purge(self, ended: Mapping[str, pa.Table]) -> None:
        if self._ending is not None and self._ending.stream in ended:
            assert isinstance(self.form, DeltaStar)
            closed = self.closed[self._ending.stream]
            self.form.purge(lambda rows: closed.until(self._key(rows)))

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        return self.form.advance(delta.fresh.lasting().without_dictionaries(), delta.retracted, now)

    def structures(self) -> dict[str, str]:
        over = "" if self._ending is None else f", without values that are over in {self._ending.stream}"
        return {name: text + over for name, text in self.form.structures().items()}

    @property
    def rows_held(self) -> int:
        return self.form.rows_held

    def parts(self) -> Parts:
        return self.form.parts()

    def restore(self, parts: Parts) -> None:
        self.form.restore(parts)


class Form(ABC):
    """A way to keep DISTINCT's state."""

    def __init__(self, schema: pa.Schema, width: int, expiry: Expiry) -> None:
        self.schema, self.width = schema, width
        self.values = CodeTable(schema)

    @abstractmethod
    def structures(self) -> dict[str, str]: ...

    @abstractmethod
    def advance(self, fresh: TimedRows, retracted: Retractions, now: int) -> Delta: ...

    @property
    @abstractmethod
    def rows_held(self) -> int: ...

    @abstractmethod
    def parts(self) -> Parts: ...

    @abstractmethod
    def restore(self, parts: Parts) -> None: ...


def _form_of(pattern: Pattern, expiry: Expiry) -> type[Form]:
    if pattern is Pattern.STRICT:
        return Counting
    return DeltaStar if expiry is Expiry.PATTERN_AWARE else Naive


class DeltaStar(Form):
    """DISTINCT by delta*: the results, and for each the youngest row that outlives it, if any.

        time     0     5      8       12      15        rows of one value: [0, 10), [5, 15), [8, 18)
        result   [0, 10)              [10, 18)
        youngest       [5,15) [8,18)

    Requires: an input whose rows end as they promise.
    Time: logarithmic in the output for a row that starts or ends a result, constant for any other (golab 3.5.2).
    Space: at most twice the output, whatever the windows hold.
    """

    def __init__(self, schema: pa.Schema, width: int, expiry: Expiry) -> None:
        super().__init__(schema, width, expiry)
        self._outlook = Outlook(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, width), np.int64))
        self._expiries = ExpiryHeap()

    def structures(self) -> dict[str, str]:
        return {"results": "delta* in a hash by value, heap of ends"}

    def advance(self, fresh: TimedRows, retracted: Retractions, now: int) -> Delta:
        assert not len(retracted), "rows of an input that is not strict end as they promise"
        code = self.values.codes(fresh.rows)
        ids, start, end = fresh.ids, fresh.start, fresh.end
        order = in_time_order(start, ids)
        if order is not None:
            code, ids, start, end = code[order], ids[order], start[order], end[order]
        rows = CodedRows(*frozen(code, ids, start, end))
        self._make_room()
        expiries = self._expiries
        expiries.reserve(len(code))
        most = len(code) + expiries.size
        out_code, out_start, out_end, over = (np.empty(most, np.int64) for _ in range(4))
        out = CodedRows(out_code, np.empty((most, self.width), np.int64), out_start, out_end)
        count, ended, expiries.size = delta_star(rows, now, self._outlook, expiries.heap, expiries.size, out, over)
        out_code, out_ids, out_start, out_end = (column[:count] for column in out)
        results = TimedRows(self.values.rows(out_code), out_ids, out_start, out_end)
        self.values.forget(over[:ended])
        return Delta(results, Retractions.none(self.width), now)

    def purge(self, over_until: Callable[[pa.Table], Times]) -> None:
        """Forget the results that no row follows: none is there, and until they end none comes."""
        known = self.values.known()
        known = known[self._outlook.youngest_end[known] == NEVER]
        over = known[over_until(self.values.rows(known)) >= self._outlook.result_end[known]]
        if len(over):
            self.values.forget(over)
            self._outlook.result_end[over] = NEVER
            self._expiries = ExpiryHeap()
            staying = self.values.known()
            self._expiries.add(self._outlook.result_end[staying], staying)

    def _make_room(self) -> None:
        room = self.values.room
        result_end, youngest_end, youngest_ids = self._outlook
        ends = grown(result_end, room, NEVER), grown(youngest_end, room, NEVER)
        self._outlook = Outlook(*ends, grown(youngest_ids, room, 0))

    @property
    def rows_held(self) -> int:
        return self._expiries.size + int(np.count_nonzero(self._outlook.youngest_end > NEVER))

    def parts(self) -> Parts:
        code = self.values.known()
        table = self.values.rows(code)
        table = table.append_column("#end", pa.array(self._outlook.result_end[code]))
        table = table.append_column("#youngest", pa.array(self._outlook.youngest_end[code]))
        for i in range(self.width):
            table = table.append_column(f"#id{i}", pa.array(self._outlook.youngest_ids[code, i]))
        return {"results": [table]}

    def restore(self, parts: Parts) -> None:
        (table,) = parts["results"]
        code = self.values.codes(table.select(self.schema.names))
        self._make_room()
        self._outlook.result_end[code] = np.asarray(table["#end"])
        self._outlook.youngest_end[code] = np.asarray(table["#youngest"])
        for i in range(self.width):
            self._outlook.youngest_ids[code, i] = np.asarray(table[f"#id{i}"])
        self._expiries.add(self._outlook.result_end[code], code)


class Naive(Form):
    """The whole input, in which the youngest row of a value is searched for when its result ends (golab 3.2.2).

    "nt": input rows are hashed by id and linked by value; negative tuples tell when they end, here as there.
    "scan": one list, scanned for what has expired, and for the youngest row.
    """

    def __init__(self, schema: pa.Schema, width: int, expiry: Expiry) -> None:
        super().__init__(schema, width, expiry)
        self._linked = expiry is Expiry.NEGATIVE_TUPLES
        self._input = PositionedRows(schema, width, by_id=self._linked, by_key=self._linked, eager=not self._linked)
        self._row, self._promised = np.empty(0, np.int64), np.empty(0, np.int64)
        self._promises = not self._linked
        """Whether rows ever end without a negative tuple."""

    def structures(self) -> dict[str, str]:
        return {"input": self._input.kept_in, "results": "hash by value"}

    def advance(self, fresh: TimedRows, retracted: Retractions, now: int) -> Delta:
        rows = self._input
        early, at = rows.find(retracted)
        rows.end[early] = at
        inserted = rows.add(fresh, self.values.codes(fresh.rows))
        self._make_room()
        due = self._due(inserted, early, now)
        most = 2 * (len(inserted) + len(due) + len(early))
        stored = StoredRows(rows.code[: len(rows)], rows.start, rows.end, rows.last, rows.link)
        out = Stays.room(most)
        retracted_row, retracted_at = np.empty(most, np.int64), np.empty(most, np.int64)
        count, ended = naive(
            inserted, due, now, stored, self._linked, self._row, self._promised, out, retracted_row, retracted_at
        )
        row, retracted_row = out.row[:count], retracted_row[:ended]
        results = TimedRows(self.values.rows(rows.code[row]), rows.ids[row], out.start[:count], out.end[:count])
        retractions = Retractions(rows.ids[retracted_row], retracted_at[:ended])
        self._forget(due[self._row[due] < 0], early, now)
        return Delta(results, retractions, now)

    def _make_room(self) -> None:
        self._row, self._promised = grown(self._row, self.values.room, -1), grown(self._promised, self.values.room, 0)

    def _due(self, inserted: Index, early: Index, now: int) -> Codes:
        """Codes whose result may end in this step: negative tuples tell, or the list of results is scanned."""
        rows = self._input
        touched = rows.code[np.concatenate([inserted, early])]
        self._promises = self._promises or bool((rows.end[inserted] < FOREVER).any())
        if self._promises:
            there = np.flatnonzero(self._row >= 0)
            touched = np.concatenate([touched, there[rows.end[self._row[there]] < now]])
        return np.unique(touched)

    def _forget(self, codes: Codes, early: Index, now: int) -> None:
        rows = self._input
        rows.unlink(codes)
        self.values.forget(codes)
        rows.ended(early)
        staying = rows.forget_ended(now)
        if staying is not None:
            there = np.flatnonzero(self._row >= 0)
            self._row[there] = np.searchsorted(staying, self._row[there])

    @property
    def rows_held(self) -> int:
        return len(self._input) + int(np.count_nonzero(self._row >= 0))

    def parts(self) -> Parts:
        code = np.flatnonzero(self._row >= 0)
        results = pa.table({"row": self._row[code], "promised": self._promised[code]})
        return {**self._input.parts("input"), "results": [results]}

    def restore(self, parts: Parts) -> None:
        self._promises = True
        self._input.restore(parts, "input", self.values.codes)
        self._make_room()
        (results,) = parts["results"]
        row = np.asarray(results["row"])
        code = self._input.code[row]
        self._row[code], self._promised[code] = row, np.asarray(results["promised"])


class Counting(Form):
    """How many rows each value has: over strict input, whose rows may end at any time (golab 3.2.2).

    The ids, values and ends of all rows are kept, so that a negative tuple tells what to count down.
    """

    def __init__(self, schema: pa.Schema, width: int, expiry: Expiry) -> None:
        super().__init__(schema, width, expiry)
        self._rows = Multiplicities(schema, width, scans=expiry is Expiry.SCAN)
        self._ids = np.empty((0, width), np.int64)

    def structures(self) -> dict[str, str]:
        return {"values": self._rows.kept_in}

    def advance(self, fresh: TimedRows, retracted: Retractions, now: int) -> Delta:
        changes = self._rows.advance(fresh, self.values.codes(fresh.rows), retracted, now)
        self._ids = grown(self._ids, self.values.room, 0)
        order = np.argsort(changes.code, kind="stable")
        code, time, on, ids = changes.code[order], changes.time[order], changes.on[order], changes.ids[order]
        follows = np.zeros(len(code), np.bool_)
        follows[1:] = code[1:] == code[:-1]
        is_last = ~np.append(follows[1:], False)
        end = np.where(is_last, FOREVER, np.append(time[1:], FOREVER))
        early = ~on & ~follows
        retractions = Retractions(self._ids[code[early]], time[early])
        last_on = on & is_last
        self._ids[code[last_on]] = ids[last_on]
        results = TimedRows(self.values.rows(code[on]), ids[on], time[on], end[on])
        self.values.forget(code[~on & is_last])
        return Delta(results, retractions, now)

    @property
    def rows_held(self) -> int:
        return len(self._rows) + len(self.values)

    def parts(self) -> Parts:
        code = self.values.known()
        table = self.values.rows(code)
        for i in range(self.width):
            table = table.append_column(f"#id{i}", pa.array(self._ids[code, i]))
        return {**self._rows.parts("rows"), "results": [table]}

    def restore(self, parts: Parts) -> None:
        (table,) = parts["results"]
        code = self.values.codes(table.select(self.schema.names))
        self._ids = grown(self._ids, self.values.room, 0)
        for i in range(self.width):
            self._ids[code, i] = np.asarray(table[f"#id{i}"])
        self._rows.restore(parts, "rows", self.values.codes)
