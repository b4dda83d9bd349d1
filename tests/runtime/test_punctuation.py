"""PUNCTUATE in whole engines, without a JVM: what is set aside, what is let go, and what EXPLAIN and the counts say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mullion.algebra.streams import Stream
from mullion.errors import CheckError, CheckpointError, ParseError
from mullion.language.parse import parse_script
from mullion.language.render import render
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.storage.journal import Journal
from without_spark import engine_without_spark, local_engine, write_events

ORDERS = Stream("orders", (("ts", TIMESTAMP), ("id", BIGINT), ("status", STRING)), "ts")
ENDS = "PUNCTUATE ON id WHEN status = 'closed'"
STREAM = "CREATE STREAM orders (ts TIMESTAMP, id BIGINT, status STRING) USING {} TIMESTAMP BY ts AHEAD UNBOUNDED"
PAYMENTS = "CREATE STREAM payments (ts TIMESTAMP, id BIGINT, amount DOUBLE) USING rate TIMESTAMP BY ts AHEAD UNBOUNDED"
PAID = (
    "CREATE QUERY paid AS SELECT o.status, p.amount "
    "FROM orders [RANGE UNBOUNDED] o, payments [RANGE UNBOUNDED] p WHERE o.id = p.id"
)
COUNTS = "CREATE QUERY counts AS SELECT id, count(*) AS n FROM orders [RANGE 10 us SLIDE 10 us] GROUP BY id"


def order(ts: int, id_: int, status: str = "open") -> dict[str, Any]:
    return {"ts": ts, "id": id_, "status": status}


def test_an_order_that_is_closed_needs_no_payments_any_more() -> None:
    script = ";".join([f"{STREAM.format('rate')} {ENDS}", PAYMENTS, PAID, COUNTS])
    with local_engine(script) as engine:
        engine.deliver("payments", [{"ts": 1, "id": 7, "amount": 1.0}, {"ts": 3, "id": 8, "amount": 2.0}], 0)
        engine.deliver("orders", [order(2, 7), order(4, 8), order(5, 7, "closed"), order(6, 7, "again")], 0)
        engine.deliver("payments", [{"ts": 10, "id": 7, "amount": 3.0}, {"ts": 20, "id": 9, "amount": 2.0}], 1)
        engine.deliver("orders", [order(18, 7, "again"), order(20, 9)], 1)
        paid = [(row["status"], row["amount"]) for row in engine.results("paid").to_arrow().to_pylist()]
        # What was paid after the end met the orders that were there.
        assert paid == [("open", 1.0), ("open", 2.0), ("closed", 1.0), ("open", 3.0), ("closed", 3.0)]
        counted = [(row["id"], row["n"]) for row in engine.results("counts").to_arrow().to_pylist()]
        assert counted == [(7, 2), (8, 1)]
        assert engine.runs["orders"].counts.broken == 2 and engine.runs["orders"].counts.events == 4
        broken = pa.concat_tables(engine.aside("broken"))
        assert broken.column("status").to_pylist() == ["again", "again"]
        (run,) = engine.relations.runs.values()
        # Orders 7 (twice) and 8, and the payment of 8; those of 7 are gone.
        assert run.rows_held == 4
        told = str(engine.explain())
        assert "of orders: a key (id) is over once status = 'closed'" in told
        assert "1 key known to be over, 2 events after the end of their key" in told
        assert "1: FIFO queue, without keys that are over in orders" in told
        assert engine.explain().to_dict()["said"]["orders"]


def test_what_came_before_the_end_of_its_key_and_lies_behind_it_still_meets() -> None:
    """Order 26 came before that of 24 which ends its key. A step up to 25 must not let go of the payment."""
    script = ";".join([f"{STREAM.format('rate')} {ENDS}", PAYMENTS, PAID])
    with local_engine(script) as engine:
        engine.deliver("payments", [{"ts": 1, "id": 7, "amount": 1.0}, {"ts": 25, "id": 9, "amount": 2.0}], 0)
        engine.deliver("orders", [order(26, 7), order(24, 7, "closed"), order(40, 8)], 0)
        engine.deliver("payments", [{"ts": 60, "id": 9, "amount": 2.0}], 1)
        paid = [(row["status"], row["amount"]) for row in engine.results("paid").to_arrow().to_pylist()]
        assert paid == [("closed", 1.0), ("open", 1.0)]
        engine.deliver("orders", [order(70, 8)], 1)
        (run,) = engine.relations.runs.values()
        assert not any(incoming.ended for incoming in run.incoming.values())


def test_keys_that_may_be_used_again_are_forgotten() -> None:
    with local_engine(f"{STREAM.format('rate')} {ENDS} FOR '10 us'; {COUNTS}") as engine:
        run = engine.runs
        for number in range(20):
            engine.deliver("orders", [order(5 * number, number), order(5 * number + 1, number, "closed")], number)
        punctuations = run["orders"].punctuations
        assert punctuations is not None and len(punctuations.closed) <= 3
        engine.deliver("orders", [order(200, 0), order(200, 19)], 20)
        assert run["orders"].counts.broken == 0


def test_what_is_known_of_keys_is_on_the_disk_once(tmp_path: Path) -> None:
    with local_engine(f"{STREAM.format('rate')} {ENDS} FOR '10 us'; {COUNTS}", checkpoint=tmp_path) as engine:
        for number in range(9):
            engine.deliver("orders", [order(5 * number, number, "closed")], number)
    journal = Journal(tmp_path / "streams" / "orders")
    named = {name for _, commit in journal.commits()[-2:] for name in journal.read(commit).files}
    written = journal.files.names("closed")
    assert written and set(written) <= named


def test_explain_tells_of_silence_and_overload() -> None:
    clauses = "IDLE AFTER '10 s' WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT MARK EXACT"
    with local_engine(f"{STREAM.format('rate')} {clauses}; {COUNTS}") as engine:
        told = str(engine.explain("counts"))
    assert "of orders: event time goes on with the clock after 10 s without events (IDLE AFTER)" in told
    assert "while the run is behind, at most 50 % of a batch is left out (WHEN BEHIND SHED)" in told


def run_of(base: Path, *, ends: str = ENDS, close: bool = False) -> list[tuple[int, int]]:
    with engine_without_spark(out=base / "out", checkpoint=base / "state") as engine:
        source = STREAM.format(f"parquet OPTIONS (path '{base / 'orders'}')")
        engine.execute(f"{source} {ends}; {COUNTS}")
        engine.run(close=close)
        return [(row["id"], row["n"]) for row in engine.results("counts").to_arrow().to_pylist()]


def test_a_restart_knows_which_keys_are_over(tmp_path: Path) -> None:
    write_events(tmp_path / "orders", 0, ORDERS, [order(1, 7), order(5, 7, "closed")])
    assert run_of(tmp_path) == []
    write_events(tmp_path / "orders", 1, ORDERS, [order(8, 7), order(12, 8)])
    assert run_of(tmp_path, close=True) == [(7, 2), (8, 1)]
    assert list((tmp_path / "out" / "_broken").glob("*.parquet"))


def test_a_checkpoint_does_not_go_on_with_other_ends(tmp_path: Path) -> None:
    write_events(tmp_path / "orders", 0, ORDERS, [order(1, 7)])
    run_of(tmp_path)
    with pytest.raises(CheckpointError, match="is not the one that the checkpoint"):
        run_of(tmp_path, ends="PUNCTUATE ON id WHEN status = 'over'")


@pytest.mark.parametrize(
    ("clause", "error", "message"),
    [
        ("PUNCTUATE ON nothing WHEN status = 'closed'", CheckError, "unknown column 'nothing'"),
        ("PUNCTUATE ON id WHEN status", CheckError, "needs a condition, and status is string"),
        ("PUNCTUATE ON id, id WHEN true", ParseError, "'id' is named twice"),
        ("PUNCTUATE ON id", ParseError, "expected WHEN"),
        ("PUNCTUATE id WHEN true", ParseError, "expected ON"),
        (f"{ENDS} FOR '0 s'", ParseError, "longer than zero"),
        (f"{ENDS} {ENDS}", ParseError, "PUNCTUATE is written twice"),
    ],
)
def test_what_is_not_meant_is_refused(clause: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message), local_engine(f"{STREAM.format('rate')} {clause}"):
        pass


def test_the_clause_is_rendered_as_it_is_read() -> None:
    text = f"{STREAM.format('rate')} KEEP '1 h' PUNCTUATE ON id, status WHEN status IN ('closed', 'lost') FOR '30 days'"
    read = parse_script(text)
    assert parse_script(";".join(map(render, read))) == read
