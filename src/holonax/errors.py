"""Everything that can go wrong, as exceptions whose text says what, the number and the remedy."""

import operator
from typing import Any


class HolonaxError(Exception):
    """Base of every exception that holonax raises on purpose."""


class InputError(HolonaxError, ValueError):
    """An argument that cannot be right, found before anything is traced or compiled."""


class StartError(InputError):
    """An initial state that is not a point of T*S, or a system that is singular there."""


class TableauError(InputError):
    """Coefficients that do not define an integrator on T*S."""


class SimulationError(HolonaxError, RuntimeError):
    """Paths whose equations could not be solved; `run` holds everything that was computed."""

    def __init__(self, message: str, run: object = None) -> None:
        super().__init__(message)
        self.run = run

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.run)  # or pickle would forget the second argument


class StoreError(HolonaxError):
    """A store that cannot be read or written: locked by another process, a full disk, a damaged or foreign folder."""


class ClusterError(HolonaxError):
    """A cluster that does not answer, is lost, or whose workers cannot do what they are asked for."""


class StepSizeWarning(UserWarning):
    """A run that is right but slow, because its steps are too large."""


_LONGEST = 120  # characters of a value in a message


def shown(value: object) -> str:
    """A value as text, on one line and not too long for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def whole_number(name: str, value: object) -> int:
    """`value` as an integer (NumPy's are welcome, booleans are not), or an InputError."""
    if isinstance(value, bool):
        raise InputError(f"{name} = {value!r}: must be an integer")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} = {shown(value)}: must be an integer") from None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C on long work; `result` holds what was done by then, in the form of the whole."""

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.result)
