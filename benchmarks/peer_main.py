"""Runs another project's server, with the interpreter of an environment that has it.

`peer_main.py NAME PORT` imports nothing of ours. Each line on standard input is answered with the CPU time of
this process in seconds, its memory in bytes, and how often it slept; the end of the input ends it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
import time
from importlib import import_module
from pathlib import Path


def secantus(port: int) -> None:
    """Run SecantusDB."""
    folder = tempfile.mkdtemp(prefix="secantus-")
    server = import_module("secantus").SecantusDBServer
    server(port=port, storage_path=folder, replica_set_name=None).start()


def nx_27017(port: int) -> None:
    """Run NX-27017."""
    sys.argv = ["nx-27017", "--db", "memory", "-p", str(port)]
    import_module("nx_27017.nx_27017").main()


def _answer_for_usage() -> None:
    for _ in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        statm = Path("/proc/self/statm")
        memory = int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0
        print(json.dumps([time.process_time(), memory, used.ru_nvcsw]), file=sys.__stdout__, flush=True)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_answer_for_usage, daemon=True).start()
    sys.stdout = sys.stderr
    {"SecantusDB": secantus, "nx-27017": nx_27017}[sys.argv[1]](int(sys.argv[2]))
    threading.Event().wait()
