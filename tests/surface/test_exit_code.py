"""What becomes of errors on the command line."""

from __future__ import annotations

import errno
import os

import pytest
import typer

from mullion.surface.exit_code import errors_to_exit_code


@pytest.mark.parametrize("path", [None, "/answers/q/1.parquet"])
def test_a_full_disk_is_told_with_what_to_do(path: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, errors_to_exit_code():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([path] if path else []))
    told = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert "No space left on device" in told and "make room" in told and (path or "") in told
