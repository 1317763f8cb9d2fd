"""What a long session costs: resident memory over many systems, observables and eager calls, and the time of a call.

`make resources` prints the curves; each should be flat at its end.
"""

import gc
import time

import jax.numpy as jnp

import holonax as hx


def resident():
    """MiB that this process holds."""
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def curve(what, act, times, points=10):
    """Print the memory after each tenth of so many calls; how much it grew in the second half."""
    found, begin = [], time.perf_counter()
    for i in range(times):
        act(i)
        if (i + 1) % (times // points) == 0:
            found.append(resident())
    seconds = (time.perf_counter() - begin) / times
    growth = found[-1] - found[points // 2 - 1]
    memory = " ".join(f"{x:5.0f}" for x in found)
    print(f"{what:<22} {memory} MiB; second half {growth:+.0f}; {1000 * seconds:.1f} ms each")
    return growth


def pendulum(i):
    return hx.System(
        lambda q, v: 0.5 * (1 + 0.01 * i) * v @ v - q[2], lambda q: q @ q - 1.0, lambda q: 0.1 * jnp.sin(q[0] + i)
    )


def new_system(i):
    system = pendulum(i)
    start = hx.start(system, q=[1.0, 0.0, 0.0])
    hx.simulate(system, hx.EulerA(), start, t1=0.25, h=2.0**-6, paths=8, progress=False)


ENTRY = hx.systems.pendulum()


def new_observable(i):
    seen = {"height": hx.Mean(lambda q, p: q[2] + i)}
    hx.simulate(ENTRY.system, hx.EulerA(), ENTRY.start, t1=0.25, h=2.0**-6, observe=seen, progress=False)


NOISE = hx.increments(ENTRY.system, h=2.0**-6, steps=16, seed=0)


def eager_call(i):
    hx.integrate(ENTRY.system, hx.Rattle(), ENTRY.start, NOISE).q.block_until_ready()


def main():
    print(f"{resident():.0f} MiB after importing")
    curve("300 systems", new_system, 300)
    curve("1000 observables", new_observable, 1000)
    curve("10000 integrate calls", eager_call, 10_000)


if __name__ == "__main__":
    main()
