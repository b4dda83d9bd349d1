"""`mullion repair`: what is wrong with a checkpoint, and the way back to the last commit that is whole.

    commit 5 <-- commit 6 <-- commit 7 (damaged)        go back to 6, let Spark read batch 7 again

A stream can go back where its source is files that are all still there: what came after the commit is read again, and
its answers are written again. Relations cannot read again; they can go back only as far as streams still have what
they had taken: by one commit, if it is of the last batch, with the queries that had entered since. Nothing is deleted:
files that are in the way are moved to a folder of the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mullion.errors import CheckpointError
from mullion.runtime.batch_input import BatchInput
from mullion.runtime.past_read import PastRead
from mullion.spark.progress import SparkCheckpoint
from mullion.storage.files import REMOVED, label_of, read_checked
from mullion.storage.journal import Commit, Journal, Standings
from mullion.storage.manifest import Manifest, journals

AHEAD_OF_COMMITS = ("tables", "ahead")
"""Folders whose files say what batches saw. Without one of them, a batch would be read again and see something else."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with a part of a checkpoint, and what can be done."""

    part: str
    problem: CheckpointError
    back_to: Commit | None = None
    """The commit to go back to; None: to the beginning."""
    cannot: str | None = None
    """Why nothing can be done."""

    @property
    def advice(self) -> str:
        if self.cannot is not None:
            return f"cannot go back: {self.cannot}"
        if self.back_to is None:
            return "can go back to the beginning, and read everything again"
        return f"can go back to the commit of batch {self.back_to.at.batch}, and go on from there"


@dataclass
class Repair:
    checkpoint: Path
    _moved: list[Path] = field(default_factory=list)

    def findings(self) -> list[Finding]:
        """Everything that is wrong."""
        findings = []
        try:
            manifest = Manifest.read(self.checkpoint)
        except CheckpointError as problem:
            advice = "restore the file from a copy, or start with a new checkpoint directory"
            findings.append(Finding("manifest.json", problem, cannot=advice))
        else:
            if manifest is None:
                message = f"there is no checkpoint in {self.checkpoint}"
                raise CheckpointError(message, hint="name the directory that you gave to --checkpoint")
        standings = self._standings()
        return [
            *findings,
            *(finding for journal in journals(self.checkpoint) for finding in self._look(journal, standings)),
        ]

    def mend(self) -> list[Finding]:
        """Go back where that is possible, when it is possible for all; returns what was wrong."""
        findings = self.findings()
        if not any(finding.cannot for finding in findings):
            for finding in findings:
                self._go_back(Journal(self.checkpoint / finding.part), finding.back_to)
        return findings

    @property
    def aside(self) -> Path | None:
        """Where files were moved to."""
        return self._moved[0] if self._moved else None

    # A journal

    def _look(self, journal: Journal, standings: Standings) -> Iterator[Finding]:
        part = str(journal.directory.relative_to(self.checkpoint))
        try:
            chain = journal.load()
            journal.last_queries()
            for folder in AHEAD_OF_COMMITS:
                journal.files.check(journal.files.names(folder))
            if part in standings:
                journal.check_standing(standings[part])
            if part.startswith("streams/"):
                committed = chain[-1].at if chain else None
                self._progress(journal).check(inputs_of(chain), committed, journal.directory / "commits")
        except CheckpointError as problem:
            chain = self._newest_whole(journal)
            back_to = chain[-1] if chain else None
            yield Finding(part, problem, back_to, self._cannot(journal, chain, standings.get(part)))

    def _cannot(self, journal: Journal, chain: list[Commit], standing: list[str] | None) -> str | None:
        """Why it cannot go back to this commit; None when it can."""
        for folder in AHEAD_OF_COMMITS:
            try:
                journal.files.check(journal.files.names(folder))
                for _, name in journal.commits():
                    named = [file for file in _files_of(journal, name) if file.startswith(f"{folder}/")]
                    journal.files.check(named)
            except CheckpointError as problem:
                return f"batches would see something else than they saw, because {problem.message}"
            if not chain and any(label_of(Path(name).name) == REMOVED for name in journal.files.names(folder)):
                return f"what its first batches saw of {folder} is not kept any more; start with a new checkpoint"
        if journal.directory.parent.name == "relations":
            if not chain or not _stands(journal, chain[-1], standing):
                return "what its relations had taken is not in the streams any more; start with a new checkpoint"
            return None
        inputs = inputs_of(chain)
        if chain and (not inputs or inputs[-1].batch != chain[-1].at.batch):
            return "nobody knows what its batches held"
        return self._progress(journal).cannot_read_again(inputs)

    def _newest_whole(self, journal: Journal) -> list[Commit]:
        """The commits up to the newest that is whole, where Spark's notes are too; otherwise none."""
        chain = journal.newest_whole()
        try:
            if journal.directory.parent.name == "streams":
                self._progress(journal).check_files(inputs_of(chain))
        except CheckpointError:
            return []
        return chain

    def _go_back(self, journal: Journal, to: Commit | None) -> None:
        chain = self._newest_whole(journal)
        if journal.directory.parent.name == "streams":
            progress = self._progress(journal)
            if to is None and progress.directory.exists():
                self._set_aside(progress.directory)
            elif to is not None:
                progress.go_back(inputs_of(chain))
        standing = self._standings().get(str(journal.directory.relative_to(self.checkpoint)))
        journal.go_back(to, self._set_aside, () if to is None else _entered_after(journal, to, standing))

    def _standings(self) -> Standings:
        """How far streams say that relations were, at the least."""
        standings: Standings = {}
        for journal in journals(self.checkpoint):
            if journal.directory.parent.name == "streams":
                for commit in journal.newest_whole()[-1:]:
                    for part, standing in commit.state["relations"].items():
                        standings[part] = max(standing, standings.get(part, standing))
        return standings

    @staticmethod
    def _progress(journal: Journal) -> SparkCheckpoint:
        return SparkCheckpoint(journal.directory / "spark")

    def _set_aside(self, path: Path) -> None:
        if not self._moved:
            number = len(list(self.checkpoint.glob("repaired-*")))
            self._moved.append(self.checkpoint / f"repaired-{number}")
        target = self._moved[0] / path.relative_to(self.checkpoint)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


def inputs_of(chain: list[Commit]) -> list[BatchInput]:
    """What the batches of commits held, the newest last."""
    return [BatchInput(**recorded) for commit in chain for recorded in commit.state["inputs"]]


def _stands(journal: Journal, commit: Commit, standing: list[str] | None) -> bool:
    """Whether relations that go back to a commit are where streams say that they were, or further."""
    name = dict(journal.commits())[commit.at]
    head, queries = standing or ("", "")
    known = not queries or queries in {*commit.files, *_entered_after(journal, commit, standing)}
    return name > head or (name == head and known)


def _entered_after(journal: Journal, commit: Commit, standing: list[str] | None) -> list[str]:
    """The lists of the step after a commit, where streams know of the queries that entered with it: going back is then
    as if that step had not been committed. None where a list, or what was there of their past, is not whole."""
    lists = journal.lists_of(commit.at.batch + 1)
    if standing is None or standing[1] not in lists:
        return []
    try:
        entries = [entry for name in lists for entry in json.loads(read_checked(journal.files.path(name)))]
        pasts = [PastRead(*past) for entry in entries for past in entry.get("pasts", {}).values() if past]
        journal.files.check([file for past in pasts for file in past.files])
    except CheckpointError:
        return []
    return lists


def _files_of(journal: Journal, name: str) -> tuple[str, ...]:
    try:
        return journal.read(name).files
    except CheckpointError:
        return ()
