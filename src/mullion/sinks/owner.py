"""The owner of a directory of answers: DIRECTORY/.mullion/owner.json names the checkpoint that they belong to.

Exactly once is a promise of a checkpoint and its answers together. A run that knows nothing of the answers it finds
would take them for leftovers of its own and remove them, so it does not touch them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from mullion.errors import MullionError
from mullion.storage.files import write_whole
from mullion.storage.lock import Lock

OWN = ".mullion"
"""The folder of a directory of answers that is Mullion's own."""


def lock_of(out: Path) -> Lock:
    return Lock(out / OWN / "lock", out, "the directory of answers")


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Owner:
    """A checkpoint by its id, or one run that has none."""

    id: str = field(default_factory=lambda: uuid4().hex)
    checkpoint: str | None = None
    since: str = field(default_factory=now)

    @property
    def text(self) -> str:
        return "a run without checkpoint" if self.checkpoint is None else f"the checkpoint {self.checkpoint}"


def owner_of(out: Path) -> Owner | None:
    """The owner of the answers here; None when it is not known."""
    try:
        return Owner(**json.loads((out / OWN / "owner.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def is_owner(out: Path, owner: Owner) -> bool:
    known = owner_of(out)
    return known is not None and known.id == owner.id


def of_another(out: Path, owner: Owner) -> MullionError:
    """What to say of answers of another run."""
    known = owner_of(out)
    if known is None:
        theirs = "answers that do not say which run wrote them"
    elif known.checkpoint is not None and known.checkpoint == owner.checkpoint:
        theirs = f"answers of an earlier checkpoint in {known.checkpoint}, begun {known.since}"
    else:
        theirs = f"answers of {known.text}, begun {known.since}"
    hint = f"name another directory, or remove those answers with --overwrite (Engine: overwrite=True){_go_on(known)}"
    return MullionError(f"{out} holds {theirs}; this is {_this(owner)}", hint=hint)


def _this(owner: Owner) -> str:
    return "a run without checkpoint" if owner.checkpoint is None else f"a run with the checkpoint {owner.checkpoint}"


def _go_on(known: Owner | None) -> str:
    if known is None or known.checkpoint is None or not Path(known.checkpoint).exists():
        return ""
    return f", or go on where they end with --checkpoint {known.checkpoint}"


def take_over(out: Path, owner: Owner) -> None:
    """From now on the answers here are its own."""
    write_whole(out / OWN / "owner.json", json.dumps(asdict(owner), indent=2).encode())
