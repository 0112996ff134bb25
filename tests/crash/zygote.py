"""Runs commands in copies of this process, which has imported everything: so a kill meets a command's work.

Reads a request per line, {"argv", "cwd", "out", "err"}; answers with {"pid"} at once and {"status"} when it has ended.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

MODULES = [
    "ap_ranker.cli.epoch_lines",
    "ap_ranker.evaluation.calibration_fit",
    "ap_ranker.ranking.encode_corpus",
    "ap_ranker.web.app",
    "ap_ranker.training.card",
    "ap_ranker.training.train",
    "haystack.components.writers",
    "haystack.document_stores.in_memory",
    "haystack_integrations.components.rankers.ap_ranker",
    "haystack_integrations.components.retrievers.ap_ranker",
    "hypercorn.asyncio",
    "torch._dynamo",
]
"""What the commands import when they run."""


def main() -> None:
    import torch

    from ap_ranker.cli.main import main as command

    torch.set_num_threads(1)  # copies of a process have none of its threads
    for name in MODULES:
        importlib.import_module(name)
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], fused=True)  # imports more
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(command, request)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


def run(command: object, request: dict[str, object]) -> None:
    """In the copy: as if the command had been started there."""
    code = 1
    try:
        os.chdir(str(request["cwd"]))
        streams = [os.open(os.devnull, os.O_RDONLY)]
        streams += [os.open(str(request[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")]
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.argv = ["ap-ranker", *request["argv"]]  # type: ignore[misc]
        command()  # type: ignore[operator]
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
