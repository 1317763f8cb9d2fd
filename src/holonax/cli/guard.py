"""What surrounds every command: exit codes, errors as one line, work that is interrupted."""

from __future__ import annotations

import errno
import functools
import os
import signal
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import jax
import typer

from holonax.cli.naming import users_error
from holonax.cli.terminal import complain
from holonax.errors import HolonaxError, InputError, Interrupted, SimulationError
from holonax.simulation.run import Run

FAILED, REFUSED, INTERRUPTED = 1, 2, 128 + signal.SIGINT

EXIT_CODES = (
    "Exit codes: 0 done; 1 paths failed; 2 bad input, or a file that cannot be used; "
    "130 and 143 stopped by SIGINT and SIGTERM."
)


class OnFailure(StrEnum):
    """What paths that failed mean for the exit code."""

    RAISE = "raise"
    MARK = "mark"


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """The command, with whatever goes wrong in it as one line and an exit code; only our own bugs have a traceback."""

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            _check_device()
            text, code = "", command(*arguments, **options)
        except KeyboardInterrupt as error:  # here, because typer has an opinion of its own on it
            text, code = str(error) or "interrupted; what is not shown above is lost", INTERRUPTED
        except SimulationError as error:
            text, code = str(error), FAILED
        except HolonaxError as error:
            text, code = str(error), REFUSED
        except Exception as error:
            text, code = users_error(error) or "", REFUSED
            if not text and isinstance(error, OSError) and error.errno == errno.ENOSPC:
                text = f"cannot write the output: {error.strerror}"
            elif not text and isinstance(error, MemoryError):
                text = f"not enough memory: {error}".removesuffix(": ")
            elif not text:
                raise
        if text:
            complain(text)
        raise typer.Exit(code)

    return guarded


_NOTHING = "interrupted: nothing is complete yet"


def whole_or_part(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result, or after an interrupt what was complete by then; the exit code for that is up to `main`."""
    try:
        return function(*arguments, **options)
    except Interrupted as interrupted:
        result = interrupted.result
        if isinstance(result, Run) and not len(result.status):
            raise KeyboardInterrupt(_NOTHING) from None
        store = getattr(result, "store", None)
        how = str(interrupted) if store is None else str(interrupted).partition("; go on with ")[0]
        complain(how if store is None else f"{how}; go on with: holonax resume {store}")
        return result
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_NOTHING) from None


def failure_code(failed: bool, on_failure: OnFailure) -> int:
    """The exit code of a run or study that came to its end."""
    return FAILED if failed and on_failure is OnFailure.RAISE else 0


def _check_device() -> None:
    """Start JAX here, where it is known what a failure means: later it is an assertion in its depths."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        wish = f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        reason = str(error) or "it finds no such device"
        raise InputError(f"JAX does not start with {wish}: {reason}; unset JAX_PLATFORMS or set it to cpu") from None
