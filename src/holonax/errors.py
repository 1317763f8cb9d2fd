"""Everything that can go wrong, as exceptions whose text says what, the number and the remedy."""


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
