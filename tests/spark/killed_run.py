"""A run that a test kills. Arguments: script, out, checkpoint and, to crash by itself, a step, an occurrence and the
processes to kill before itself."""

import os
import signal
import sys
from contextlib import nullcontext

from mullion.engine import Engine
from mullion.spark.session import local_session
from mullion.testing import crash_at, kill_this_process


def main(script: str, out: str, checkpoint: str, step: str = "", occurrence: str = "1", *others: str) -> None:
    def kill() -> None:
        for other in others:
            os.kill(int(other), signal.SIGKILL)
        kill_this_process()

    session = local_session(master="local[1]", config={"spark.sql.shuffle.partitions": "1"})
    with Engine(session, out=out, checkpoint=checkpoint) as engine:
        with open(script) as file:
            engine.execute(file.read())
        print("running", flush=True)
        with crash_at(step, int(occurrence), kill) if step else nullcontext():
            engine.run()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
