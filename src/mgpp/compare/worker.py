"""One cell in a process of its own: what kills it leaves the others alone. `python -m mgpp.compare.worker JSON`."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from mgpp.run import RunConfig, RunInterrupted, RunStopped, run
from mgpp.run.reasons import reason_of

INTERRUPTED = 130


def main(job: str) -> int:
    asked = json.loads(job)
    return obey(lambda: run(RunConfig.from_dict(asked["config"]), resume=asked["resume"], tell=tell))


def obey(work: Callable[[], object]) -> int:
    """0 when `work` is done; else the reason goes to stdout, as JSON. What libraries print goes to stderr."""
    # A shell starts what runs in its background with SIGINT ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            work()
    except (KeyboardInterrupt, RunInterrupted):
        return INTERRUPTED
    except Exception as error:
        print(json.dumps({"reason": _reason(error)}))
        return 1
    return 0


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _stop_with_parent() -> None:
    """The parent holds our stdin open; when it is gone, however rudely, this run stops at its last checkpoint."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, RunStopped | ImportError) and text else reason_of(error)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
