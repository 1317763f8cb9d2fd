"""`hx.Dask`: the chunks of a run are tasks for the workers of a cluster.

What a chunk computes depends neither on who computes it nor on the other chunks, and what chunks have found is joined
in the order of the paths.  So results have the bits that one machine finds with the same engine, and a chunk that is
lost with its worker is computed again by another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from holonax.engines.base import cores
from holonax.errors import ClusterError, InputError, shown

_CONNECT_SECONDS = 10
_START_SECONDS = 120  # that the first of our own workers may take
_QUIET = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is for the client, which tells workers
_GUARD = "a script that starts workers must do so under `if __name__ == '__main__':`, for they import it"


@final
@dataclass(frozen=True)
class Dask:
    """Where the chunks of a run are computed: by the workers of a Dask cluster.

    Args:
        client: a `distributed.Client`, or the address of a scheduler, such as `"tcp://10.0.0.1:8786"`; left out, a
            cluster on this machine, with a worker for each core, that lasts as long as the run.

    Needs `pip install 'holonax[cluster]'`, here and where the workers are.

    >>> import holonax as hx
    >>> hx.Dask("tcp://10.0.0.1:8786")
    Dask(client='tcp://10.0.0.1:8786')
    """

    client: Any = None

    def __post_init__(self) -> None:
        named = isinstance(self.client, str) and bool(self.client.strip())
        if self.client is not None and not named and not isinstance(self.client, _distributed().Client):
            raise InputError(
                f"hx.Dask({shown(self.client)}): must be a distributed.Client or the address of a scheduler, such as "
                "'tcp://10.0.0.1:8786'; of a cluster object pass cluster.get_client()"
            )

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """The client; what is not the user's own is closed afterwards."""
        if self.client is None:
            with _own_cluster() as client:
                yield client
        elif isinstance(self.client, str):
            client = self._at(self.client)
            try:
                yield client
            finally:
                client.close(timeout=_CONNECT_SECONDS)
        elif self.client.asynchronous:
            raise InputError("hx.Dask(client): the client is asynchronous; pass one made with asynchronous=False")
        elif self.client.status != "running":
            raise ClusterError(f"hx.Dask(client): the client is {self.client.status}; make a new one")
        else:
            yield self.client

    def _at(self, address: str) -> Any:
        try:
            return _distributed().Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            reason = "no scheduler answers there" if isinstance(error, OSError) else str(error)
            raise ClusterError(
                f"hx.Dask({address!r}): {reason}; start one with `dask scheduler` and workers with `dask worker "
                f"{address}`, or give the address that it has"
            ) from None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ClusterError("a cluster needs Dask: pip install 'holonax[cluster]'") from None
    return distributed


@contextmanager
def _own_cluster() -> Iterator[Any]:
    """A cluster on this machine: as many processes of one thread each as there are cores."""
    import multiprocessing  # which changes the list of modules

    if getattr(multiprocessing.current_process(), "_inheriting", False):  # in a worker that imports the user's script
        raise ClusterError(f"hx.Dask(): {_GUARD}")
    distributed = _distributed()
    try:
        cluster = distributed.LocalCluster(
            n_workers=cores(), threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", preload=[_QUIET]
        )
    except RuntimeError as error:
        raise ClusterError(f"hx.Dask(): no workers could be started: {error}; {_GUARD}") from error
    try:
        with distributed.Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=_START_SECONDS)
            yield client
    finally:
        cluster.close()
