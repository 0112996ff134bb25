"""Async versions of blocking methods, threads that may hang and those of torch, and the garbage of a long process."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_thread(
    method: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Coroutine[Any, Any, Result]]:
    """The async version of a method: it calls the method in a thread, so that the event loop stays free.

    Its name is `METHOD_async`, its signature and documentation are those of the method. It calls a subclass's override.
    """

    @functools.wraps(method)
    async def call_in_thread(self: Owner, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await asyncio.to_thread(getattr(self, method.__name__), *args, **kwargs)

    call_in_thread.__name__ += "_async"
    call_in_thread.__qualname__ += "_async"
    return call_in_thread


def in_daemon_thread(work: Callable[..., Result], *arguments: Any) -> Future[Result]:
    """Begin work in a thread that the end of the process does not wait for: it may hang for ever."""
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # from now on nobody can cancel it

    def run() -> None:
        try:
            result = work(*arguments)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return future


def wait_without_spinning() -> None:
    """Let threads of torch sleep that have nothing to do, unless OMP_WAIT_POLICY of the environment says otherwise.

    To be called before torch is imported. Threads that spin instead take most of the time of a machine that does
    something else, too: a first `ap-ranker ask` took 26 s of processor time beside others, and 10 s without.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def use_one_thread() -> None:
    """Let torch compute with one thread, unless the environment variable OMP_NUM_THREADS says otherwise.

    Searches run side by side: several threads of one would wait for those of another.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(1)


def leave_what_lives() -> None:
    """Let the search for garbage leave out what is there now, garbage aside: the model, its libraries, the documents.

    They are most of a million objects: to look through them took 0.16 s on a busy machine, while nobody was answered.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
