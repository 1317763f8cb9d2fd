"""A campaign of bad input: every case with what must come of it, and the verdicts counted (`make campaign`).

A case is fine (what it should give holds), a clear error (a HolonaxError that names the argument and the remedy),
confusing (one that does not, or that refuses what is fine), from the depths (no HolonaxError, or one that speaks of
JAX's internals), silent (nothing is said), a hang (over 20 s) or a crash.
"""

import collections
import contextlib
import dataclasses
import fractions
import functools
import itertools
import json
import math
import os
import pickle
import re
import select
import subprocess
import sys
import time
import types
import warnings
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np

import holonax as hx
from holonax.studies.arguments import plan_study

PATIENCE = 20.0
GOOD = ("fine", "clear error")
VERDICTS = (*GOOD, "confusing", "from the depths", "silent", "hang", "crash")
INTERNALS = re.compile(r"Tracer|jaxlib|jax\._src|Xla|XLA|ArrayImpl|jaxpr|concrete value|aval")


@dataclasses.dataclass(frozen=True)
class Case:
    """`says` is what the error must say; without it the call is fine, and `holds` is true of its result."""

    name: str
    call: object
    says: str | None = None
    holds: object = lambda result: True


def judge(case):
    """The verdict on a case, and what was said."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = case.call()
        except hx.HolonaxError as error:
            text = str(error)
            if INTERNALS.search(text):
                return "from the depths", text
            return ("clear error" if case.says and re.search(case.says, text, re.DOTALL) else "confusing"), text
        except Exception as error:
            return "from the depths", f"{type(error).__name__}: {error}"
    if case.says is None:
        return ("fine" if case.holds(result) else "silent"), f"gave {result!r}"[:200]
    told = [str(warning.message) for warning in warned]
    return ("clear error" if any(re.search(case.says, text) for text in told) else "silent"), f"gave {result!r}"[:200]


# What the cases are made of.


def sphere(q):
    return q @ q - 1.0


PENDULUM = hx.System(lambda q, v: 0.5 * v @ v - q[2], constraint=sphere, noise=jnp.sin)
QUIET = hx.System(lambda q, v: 0.5 * v @ v - q[2], constraint=sphere)
Q, V = [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]
NAN, INF = float("nan"), float("inf")


@functools.cache
def state(system=PENDULUM):
    return hx.start(system, Q, V)


def simulate(**changes):
    arguments = {"t1": 1.0, "h": 0.125} | changes
    system, method = arguments.pop("system", PENDULUM), arguments.pop("method", hx.EulerA())
    return hx.simulate(system, method, arguments.pop("start", None) or state(), **arguments)


def observe(fn, **changes):
    return simulate(observe={"x": hx.Mean(fn)}, **changes)


def sample(log_density=lambda q: -q[2], constraint=sphere, q0=Q, **changes):
    return hx.sample(log_density, constraint, q0, **{"draws": 10, "warmup": 40} | changes)


def strong(**changes):
    arguments = {"t1": 1.0, "h": [0.25, 0.125], "paths": 4} | changes
    system, method = arguments.pop("system", PENDULUM), arguments.pop("method", hx.EulerA())
    return hx.strong_order(system, method, arguments.pop("start", None) or state(), **arguments)


def weak(fn=lambda q, p: q[0], **changes):
    arguments = {"t1": 1.0, "h": [0.25, 0.125], "paths": 4, "observables": {"x": fn}} | changes
    return hx.weak_order(PENDULUM, hx.EulerA(), state(), **arguments)


def increments(**changes):
    arguments = {"h": 0.1, "steps": 4, "seed": 0} | changes
    return hx.increments(arguments.pop("system", PENDULUM), **arguments)


def autocorrelation(lags, **changes):
    return simulate(save_every=None, observe={"x": hx.Autocorrelation(lambda q, p: q[0], lags)}, **changes)


@dataclasses.dataclass
class Holder:
    """A callable that cannot be hashed."""

    array: object = dataclasses.field(default_factory=lambda: np.ones(3))

    def __call__(self, *arguments):
        return 0.5 * (arguments[-1] @ arguments[-1]) - 0.5


NOT_NUMBERS = {
    "text": "1", "None": None, "complex": 1j, "array": np.ones(2), "list": [1.0], "True": True, "function": len,
    "jax array": jnp.ones(3),
}  # fmt: skip
NOT_FINITE = {"nan": NAN, "inf": INF, "-inf": -INF, "10**400": 10**400}
NOT_INTEGERS = {"2.5": 2.5, "2.0": 2.0, "text": "2", "complex": 2j, "array": np.arange(2), "True": True, "list": [1]}
NOT_COUNTERS = NOT_INTEGERS | {
    "None": None, "-1": -1, "2**64": 2**64, "array(-5)": np.array(-5), "jax array(-1)": jnp.array(-1),
    "array(0.5)": np.array(0.5),
}  # fmt: skip
NOT_CHOICES = {"typo": "paht", "None": None, "3": 3, "list": ["raise"]}
NOT_FLAGS = {"text": "no", "None": None, "1": 1}
NOT_VECTORS = {
    "text": "abc", "texts": ["1", "0", "0"], "complex": [1j, 0, 0], "ragged": [[1.0], [1.0, 2.0]], "dict": {"x": 1.0},
    "function": len, "None inside": [1.0, None, 0.0],
}  # fmt: skip
NOT_FUNCTIONS = {"3": 3, "text": "q", "array": np.ones(3), "list": [len]}


def each(group, call, argument, values, says=r"must be|is not", extra=""):
    """One case for every value of an argument that `call` takes by name."""
    for label, value in values.items():
        yield Case(
            f"{group}: {argument} = {label}",
            functools.partial(call, **{argument: value}),
            rf"{argument} .*({says}){extra}",
        )


# Functions that users bring: what goes wrong in them, whatever their role.


def _never(*x):
    raise ValueError("only for odd moons")


def _list_index(*x):
    return [1.0, 2.0][7] * x[0][0]


def _branch(*x):
    return x[0][0] if x[0][0] > 0 else -x[0][0]


def _in_place(*x):
    x[0][0] = 1.0
    return x[0][0]


def _nothing(*x):
    x[0] @ x[0]


def _kinetic(x):
    return 0.5 * (x[-1] @ x[-1]) * (len(x) - 1)  # for a Lagrangian


def _loop(*x):
    return jax.lax.while_loop(lambda y: y < 5.0, lambda y: y + 1.0, x[0][0]) - 5.0 + _kinetic(x)


def _callback(*x):
    number = jax.ShapeDtypeStruct((), jnp.result_type(float))
    return jax.pure_callback(lambda y: np.sin(y), number, x[0][0]) + _kinetic(x)


HERE = rf"line \d+ of .*{re.escape(os.path.basename(__file__))}"
FAULTS = {  # how it is called: the function, what must be said of it
    "math.sin": (lambda *x: math.sin(x[0][0]), HERE + r".*math\.sin\(.*use jnp\.sin instead of math\.sin"),
    "np.sin": (lambda *x: np.sin(x[0]).sum(), HERE + r".*use jnp\.sin instead of np\.sin"),
    "np.array": (lambda *x: np.array([x[0][0], 1.0])[0], HERE + r".*use jnp\.array instead of np\.array"),
    "math.hypot": (lambda *x: math.hypot(*x[0]), HERE + r".*use jnp\.hypot instead of math\.hypot"),
    "float": (lambda *x: float(x[0][0]), HERE + r".*leave out float\(\)"),
    "int": (lambda *x: int(x[0][0]) * 1.0, HERE + r".*leave out int\(\)"),
    "if": (_branch, HERE + r".*use jnp\.where instead of if"),
    "max": (lambda *x: max(x[0]), HERE + r".*use jnp\.max instead of max"),
    "its own ValueError": (_never, r"raised ValueError: only for odd moons.*" + HERE),
    "its own IndexError": (_list_index, r"raised IndexError: list index out of range.*" + HERE),
    "an unknown name": (lambda *x: undefined_name, r"raised NameError.*undefined_name.*" + HERE),  # noqa: F821
    "assignment": (_in_place, r"raised TypeError: JAX arrays are immutable.*" + HERE),
    "nothing": (_nothing, r"returns None.*" + HERE + ".*end it with a return"),
    "text": (lambda *x: "x", r"returns a str.*" + HERE),
    "a dictionary": (lambda *x: {"L": x[0][0]}, r"returns a dict.*" + HERE),
    "complex": (lambda *x: 1j * x[0][0], r"complex128.*" + HERE + ".*must be real"),
    "an index beyond": (lambda *x: x[0][5], r"does not accept 3 coordinates: index 5.*" + HERE + ".*accepts 6"),
    "an index before": (lambda *x: x[0][-5], r"does not accept 3 coordinates: index -5.*" + HERE + ".*accepts 5"),
    "an index in JAX": (lambda *x: jnp.asarray(x[0])[7], r"does not accept 3 coordinates: index 7.*" + HERE),
    "a table of indices": (lambda *x: x[0][jnp.array([0, 3])].sum(), r"does not accept 3 .*index 3.*" + HERE),
    "take": (lambda *x: jnp.take(x[0], 4), r"does not accept 3 coordinates: index 4"),
    "another size": (lambda *x: x[0] @ jnp.ones(4), r"does not accept 3 coordinates.*" + HERE + ".*accepts 4"),
}
DIFFERENTIABLE = {
    "an integer": (lambda *x: 1, r"returns int64.*no derivative.*" + HERE),
    "a callback": (_callback, r"cannot be differentiated.*" + HERE),
    "a loop of unknown length": (_loop, r"cannot be differentiated.*Reverse-mode.*" + HERE),
}
LISTS = {"a list": (lambda *x: [x[0][0]], r"returns a list.*" + HERE + r".*jnp\.array")}
TENSORS = {"a matrix": (lambda *x: jnp.outer(x[0], x[0]), r"returns shape \(3, 3\).*" + HERE)}


def taking(function, number):
    """The same with a plain signature: one that is called with one argument too many is a case of its own."""
    return [lambda q: function(q), lambda q, v: function(q, v)][number - 1]


def mechanical(L=lambda q, v: 0.5 * v @ v, g=None, gamma=None):
    """All the way to a run: whatever the start does not look at must be found before it is compiled."""
    system = hx.System(L, g, gamma)
    return hx.simulate(system, hx.EulerA(), hx.start(system, Q), t1=1.0, h=0.5)


ROLES = {  # name in messages: a call with the function in that role, how many vectors it takes, and its faults
    "lagrangian": (lambda f: mechanical(L=f), 2, FAULTS | DIFFERENTIABLE | LISTS | TENSORS),
    "constraint": (lambda f: mechanical(g=f), 1, FAULTS | DIFFERENTIABLE | LISTS | TENSORS),
    "noise": (lambda f: mechanical(gamma=f), 1, FAULTS | DIFFERENTIABLE | LISTS | TENSORS),
    "fn": (lambda f: observe(f), 2, FAULTS),
    "log_density": (lambda f: sample(f), 1, FAULTS | DIFFERENTIABLE | LISTS | TENSORS),
    "constraint of sample": (lambda f: sample(constraint=f), 1, FAULTS | DIFFERENTIABLE | LISTS | TENSORS),
    "observable 'x'": (lambda f: weak(f), 2, FAULTS | LISTS | TENSORS),
}


def functions():
    for role, (call, number, faults) in ROLES.items():
        name = role.removesuffix(" of sample")
        for label, (fault, says) in faults.items():
            yield Case(f"{role}: {label}", functools.partial(call, taking(fault, number)), f"^{name}.*{says}")
        more = [lambda q: 0.0 * q[0], lambda q, v, t: 0.0 * q[0]][number - 1 : number + 1]
        more.append(lambda: 0.0)
        for function in more if number == 2 else [lambda q, v: 0.0 * q[0], lambda: 0.0]:
            count = function.__code__.co_argcount
            yield Case(
                f"{role}: {count} arguments", functools.partial(call, function),
                rf"^{name} takes \(.*{HERE}.*called with \(q.*write it as a function of \(q",
            )  # fmt: skip
        for label, value in NOT_FUNCTIONS.items():
            yield Case(f"{role} = {label}", functools.partial(call, value), f"^{name} = .* is not a function of")
        if role in ("lagrangian", "constraint", "noise", "fn"):
            yield Case(f"{role}: unhashable", functools.partial(call, Holder()), f"^{name} = Holder.*eq=False")
        else:
            yield Case(f"{role}: unhashable", functools.partial(call, Holder()))


# Arguments, function by function.


def simulating():
    for argument in ("t1", "h", "t0"):
        yield from each("simulate", simulate, argument, NOT_NUMBERS | NOT_FINITE)
    for argument in ("paths", "save_every", "first_step"):
        yield from each("simulate", simulate, argument, NOT_INTEGERS, "integer")
        yield from each("simulate", simulate, argument, {"-1": -1}, "must be|numbered from 0")
    yield from each("simulate", simulate, "seed", NOT_COUNTERS, r"integer from 0 to 2\*\*64 - 1")
    for argument in ("engine", "dtype", "on_failure"):
        yield from each("simulate", simulate, argument, NOT_CHOICES, "choose one of")
    methods = {"None": None, "a class": hx.Kicked, "a name": "Kicked", "a function": len}
    yield from each("simulate", simulate, "method", methods, "is not a method; pass an instance")
    systems = {"None": None, "a function": len, "an entry": hx.systems.pendulum(), "a class": hx.System}
    yield from each("simulate", simulate, "system", systems, r"is not a system; build one with hx\.System")
    starts = {"a list": Q, "a dict": {"q": Q}, "a tuple": (Q, V), "an array": np.array(Q), "text": "rest"}
    for label, start in starts.items():
        yield Case(
            f"simulate: start = {label}",
            lambda start=start: hx.simulate(PENDULUM, hx.EulerA(), start, t1=1.0, h=0.5),
            r"start = .* is not a state; build it with hx\.start",
        )
    states = {
        "no momentum": (hx.State(Q, None), r"start\.p = None"),
        "text": (hx.State("abc", V), r"start\.q = 'abc'"),
        "short p": (hx.State(Q, [0.0, 1.0]), r"start\.p has shape \(2,\) but q has \(3,\)"),
        "short v": (hx.State(Q, V, [0.0]), r"start\.v has shape \(1,\)"),
        "nan": (hx.State([NAN, 0.0, 0.0], V), r"start\.q\[0\] = nan"),
        "off the manifold": (hx.State(np.ones(3), np.zeros(3)), "off the manifold"),
        "complex": (hx.State([1j, 0, 0], V), r"start\.q .*real numbers"),
    }
    for label, (start, says) in states.items():
        yield Case(f"simulate: state with {label}", functools.partial(simulate, start=start), says)
    observed = {"a list": [hx.Max(lambda q, p: q[0])], "an observable": hx.Max(lambda q, p: q[0]), "text": "energy"}
    yield from each("simulate", simulate, "observe", observed, "name the observables")
    inside = {"a function": lambda q, p: q, "a class": hx.Mean, "None": None}
    for label, value in inside.items():
        yield Case(
            f"simulate: observe holds {label}", functools.partial(simulate, observe={"x": value}),
            r"observe\['x'\] = .* is not an observable; wrap the function",
        )  # fmt: skip
    yield Case("simulate: h = 0", functools.partial(simulate, h=0.0), "h = 0.0.*must be positive")
    yield Case("simulate: t1 before t0", functools.partial(simulate, t0=2.0), "t1 = 1.0 is not after t0 = 2.0")
    yield Case("simulate: not a whole number", functools.partial(simulate, h=0.3), "3.33333 steps.*use t1 = 0.9")
    yield Case(
        "simulate: paths and states", lambda: simulate(paths=3, start=hx.start(PENDULUM, [Q] * 2)), "holds 2 states"
    )
    for label, call in {
        "t1": lambda t1: simulate(t1=t1).q.sum(),
        "h": lambda h: simulate(h=h).q.sum(),
        "start": lambda x: simulate(start=hx.State(x * jnp.array(Q), jnp.zeros(3))).q.sum(),
        "the Lagrangian": lambda x: simulate(
            system=hx.System(lambda q, v: 0.5 * v @ v - x * q[2], sphere), start=state(QUIET)
        ).q.sum(),
    }.items():
        yield Case(f"grad of simulate in {label}", lambda call=call: jax.grad(call)(1.0), r"traced.*use hx\.integrate")


def sizes():
    huge = {
        "simulate: h = 1e-300": (lambda: simulate(h=1e-300), r"steps of h = 1e-300.*2147483647.*larger h"),
        "simulate: t1 = 1e300": (lambda: simulate(t1=1e300), r"steps of h = 0.125.*2147483647"),
        "simulate: h = 1e-11": (lambda: simulate(h=1e-11, save_every=None), r"1e\+11 steps.*2147483647"),
        "simulate: 1e9 steps saved": (lambda: simulate(h=1e-9, paths=100), r"GiB.*save_every="),
        "simulate: paths = 10**12": (lambda: simulate(paths=10**12), r"GiB.*save_every="),
        "simulate: paths = 10**14, none saved": (lambda: simulate(paths=10**14, save_every=None), "GiB"),
        "simulate: t0 that hides h": (lambda: simulate(t0=1e15, t1=1e15 + 1), r"h = 0.125 cannot be seen.*use t0 = 0"),
        "simulate: steps beyond the counter": (
            lambda: simulate(first_step=2**31 - 4), r"go beyond the counter of the noise.*first_step=0",
        ),
        "simulate: late t0 far beyond the counter": (lambda: simulate(t0=1e9, t1=1e9 + 0.3, h=0.01), "first_step=0"),
        "simulate: results of an observable": (
            lambda: simulate(
                t1=1000.0, h=1e-6, save_every=None, observe={"x": hx.Mean(lambda q, p: jnp.ones((100, 100)), every=1)}
            ),
            r"results of Mean over 'paths', each of shape \(100, 100\), need .* GiB",
        ),
        "increments: steps = 2**33": (lambda: increments(steps=2**33), r"steps = 8589934592.*2\*\*32"),
        "increments: steps = 2**32": (lambda: increments(steps=2**32), r"4294967296 steps.*GiB.*fewer steps"),
        "sample: draws = 10**12": (lambda: sample(draws=10**12), r"draws = 1000000000000.*draw fewer"),
        "sample: draws = 10**9, many chains": (lambda: sample(draws=10**9, chains=100), r"draws = 1000000000.*GiB"),
        "sample: chains = 10**15": (lambda: sample(chains=10**15), r"chains = 1000000000000000.*GiB.*fewer"),
        "sample: thin = 10**10": (lambda: sample(thin=10**10), r"thin = 10000000000.*steps"),
        "strong_order: h = 1e-12": (lambda: strong(h=[0.25, 0.25e-12]), r"h = 2.5e-13.*2147483647.*larger step sizes"),
        "strong_order: paths = 10**12": (lambda: strong(paths=10**12), r"paths = 1000000000000.*GiB.*fewer paths"),
        "strong_order: refine = 10**12": (lambda: strong(refine=10**12), r"1000000000000 times finer.*smaller refine"),
        "weak_order: paths = 10**12": (lambda: weak(paths=10**12), r"paths = 1000000000000.*GiB"),
        "Autocorrelation: too many lags": (lambda: autocorrelation(10**6), r"lags = 1000000: only 9 times.*fewer"),
        "Autocorrelation: lags in memory": (
            lambda: autocorrelation(10**6, h=2.0**-21, paths=10**6), r"lags = 1000000.*GiB.*fewer lags",
        ),
    }  # fmt: skip
    huge |= {  # warned of, since they could be meant: here, not run
        "Autocorrelation: slow": (
            lambda: hx.Autocorrelation(lambda q, p: q[0], 10**6).view(2**21, None, 100, 0.0, 1.0, 3, "float64", {}),
            r"lags = 1000000 at 2097153 times take 2e\+14 products; ask for fewer",
        ),
        "strong_order: slow": (
            lambda: plan_study(
                PENDULUM, [hx.EulerA()], state(), 1.0, [0.25, 2.0**-26], 16, None, "raise", 10**4, 0
            ),
            r"paths = 10000 .*1e\+13 steps, which is days of work; use fewer paths",
        ),
    }  # fmt: skip
    yield from (Case(name, call, says) for name, (call, says) in huge.items())


def starting():
    def start(**changes):
        return hx.start(**{"system": PENDULUM, "q": Q} | changes)

    for argument in ("q", "v", "p"):
        yield from each("start", start, argument, NOT_VECTORS, "not real numbers|not an array of numbers")
        wrong = functools.partial(start, **{argument: [NAN, 0.0, 0.0]})
        yield Case(f"start: {argument} = nan", wrong, rf"{argument}\[0\] = nan is not finite")
    yield Case("start: q = None", lambda: start(q=None), "q = None.*pass n coordinates")
    yield from each("start", start, "project", NOT_FLAGS, "must be True or False")
    yield from each("start", start, "system", {"None": None, "a function": len}, r"build one with hx\.System")
    wrong = {
        "a number": ({"q": 1.0}, r"q has shape \(\)"),
        "nothing": ({"q": []}, r"q has shape \(0,\)"),
        "a cube": ({"q": np.ones((2, 2, 2))}, r"q has shape \(2, 2, 2\)"),
        "both v and p": ({"v": V, "p": V}, "pass only one"),
        "short v": ({"v": [0.0, 1.0]}, r"v has shape \(2,\) but q has \(3,\)"),
        "too few": ({"q": [1.0, 0.0]}, "lagrangian does not accept 2 coordinates.*accepts 3"),
        "off": ({"q": np.ones(3)}, "g.*is not zero.*project=True"),
        "not tangent": ({"v": [1.0, 0.0, 0.0]}, "not tangent"),
    }
    for label, (changes, says) in wrong.items():
        yield Case(f"start: {label}", functools.partial(start, **changes), says)
    fine = {
        "integers": {"q": [1, 0, 0]},
        "fractions": {"q": [fractions.Fraction(1), 0, 0]},
        "decimals": {"q": [Decimal(1), Decimal(0), Decimal(0)]},
        "float32": {"q": np.array(Q, np.float32)},
        "a tuple": {"q": tuple(Q)},
        "several": {"q": [Q, Q], "v": [V, V]},
        "numpy's True": {"q": [2.0, 0.0, 0.0], "project": np.bool_(True)},
    }
    for label, changes in fine.items():
        yield Case(
            f"start: {label}",
            functools.partial(start, **changes),
            holds=lambda s: abs(sphere(s.q.T[:, 0] if s.q.ndim > 1 else s.q)) < 1e-12,
        )


def systems():
    def system(**changes):
        return hx.System(**{"lagrangian": lambda q, v: v @ v} | changes)

    yield from each("System", system, "n", NOT_INTEGERS, "integer")
    yield from each("System", system, "n", {"0": 0, "-3": -3}, "at least 1")
    yield from each(
        "System", system, "redundant", {"drop": "drop", "3": 3, "-1": (-1,), "0.5": (0.5,)}, "refuse|numbered|integer"
    )
    yield Case("System: n = numpy's", lambda: system(n=np.int64(3)).n, holds=lambda n: n == 3)
    yield Case(
        "System: no size fits", lambda: system(lagrangian=lambda q, v: (v @ jnp.ones(99)) ** 2).dimension(), "n="
    )
    yield Case(
        "System: fails at any size", lambda: system(lagrangian=taking(_never, 2)).dimension(), "only for odd moons"
    )
    yield Case(
        "System: sizes that do not meet",
        lambda: hx.System(lambda q, v: v @ jnp.ones(2), lambda q: q @ jnp.ones(3)).dimension(), r"no number.*n=",
    )  # fmt: skip
    yield Case(
        "System: k = n", lambda: hx.start(hx.System(lambda q, v: v @ v, lambda q: q), Q), "k = 3 constraints leave"
    )


def methods():
    newtons = {"None": None, "25": 25, "a class": hx.Newton}
    examples = (*hx.Method.examples(), hx.VPRK(hx.tableaux.RATTLE), hx.Langevin(1.0, 1.0))
    for name, example in {type(example).__name__: example for example in examples}.items():
        change = functools.partial(dataclasses.replace, example)
        yield from each(name, change, "newton", newtons, r"is not a newton; pass one such as hx\.Newton")
    yield from each("Newton", hx.Newton, "max_iterations", NOT_INTEGERS | {"None": None}, "integer")
    yield from each("Newton", hx.Newton, "max_iterations", {"0": 0}, "at least 1")
    tolerances = {key: value for key, value in NOT_NUMBERS.items() if value is not None}
    yield from each("Newton", hx.Newton, "tolerance", tolerances | {"nan": NAN})
    yield from each("Newton", hx.Newton, "tolerance", {"0": 0.0, "1": 1.0}, "between 0 and 1")
    yield from each("Kicked", hx.Kicked, "scheme", NOT_CHOICES, "choose one of")
    stages = NOT_INTEGERS | {"1": 1, "7": 7, "None": None}
    yield from each("Lobatto", hx.Lobatto, "stages", stages, "2, 3, 4, 5 and 6")
    yield from each("tableaux.lobatto", hx.tableaux.lobatto, "stages", stages, "2, 3, 4, 5 and 6")
    tableaux = {"a name": "rk4", "None": None, "an array": np.eye(2)}
    yield from each("VPRK", hx.VPRK, "tableau", tableaux, r"is not a tableau; pass one such as")

    def langevin(**changes):
        return hx.Langevin(**{"friction": 1.0, "temperature": 1.0} | changes)

    frictions = {"text": "1", "None": None, "complex": 1j, "ragged": [[1.0], [1.0, 2.0]], "-1": -1.0, "nan": NAN}
    yield from each("Langevin", langevin, "friction", frictions, "number >= 0")
    yield from each("Langevin", langevin, "temperature", NOT_NUMBERS | NOT_FINITE | {"-1": -1.0})
    yield from each("Langevin", langevin, "inner", NOT_INTEGERS | {"None": None}, "integer")
    yield from each("Langevin", langevin, "metropolis", NOT_FLAGS, "True or False")
    yield from each("Langevin", langevin, "splitting", NOT_CHOICES, "a string of A, B and O")
    yield from each("Langevin", langevin, "core", {"a name": "Rattle", "a class": hx.Rattle}, "not a symplectic method")

    def relativistic(method):
        system = hx.System(lambda q, v: -jnp.sqrt(1.0 - v @ v), n=3)
        return hx.simulate(system, method, hx.start(system, Q), t1=1.0, h=0.125)

    yield Case("Langevin: L not defined for all v", lambda: relativistic(langevin()), "L is not quadratic in v")
    yield Case(
        "Langevin: noisy system", lambda: simulate(method=langevin()), r"3 stochastic potentials.*without noise="
    )

    def tableau(**changes):
        return hx.Tableau(**{"a": [[0, 0], [0.5, 0.5]], "b": [0.5, 0.5]} | changes)

    for argument, values in {
        "a": {
            "None": None,
            "text": "rk4",
            "complex": [[0, 0], [0.5j, 0.5]],
            "ragged": [[0], [0.5, 0.5]],
            "flat": [0, 1],
        },
        "b": {"None": None, "a number": 1.0, "text": "ab"},
        "nu": {"short": [1.0], "text": "ab", "nan": [NAN, 1.0]},
        "kappa": {"short": [1.0], "text": "ab"},
    }.items():
        yield from each("Tableau", tableau, argument, values, "not an array|is needed|not finite|not a list", "")


OBSERVABLES = {
    "Mean": hx.Mean,
    "Moments": hx.Moments,
    "Max": hx.Max,
    "Autocorrelation": functools.partial(hx.Autocorrelation, lags=3),
    "Histogram": functools.partial(hx.Histogram, edges=[0.0, 1.0]),
}


def observing():
    def fn(q, p):
        return q[0]

    for name, make in OBSERVABLES.items():
        yield from each(name, functools.partial(make, fn), "every", NOT_INTEGERS, "integer")
        yield from each(name, functools.partial(make, fn), "after", {"2.5": 2.5, "None": None, "-1": -1})
        yield from each(name, functools.partial(make, fn), "over", NOT_CHOICES, "choose one of")
        yield Case(
            f"{name}: an index beyond",
            lambda make=make: simulate(observe={"x": make(lambda q, p: p[9])}),
            r"fn does not accept 3 coordinates: index 9",
        )
    lags = functools.partial(hx.Autocorrelation, fn)
    yield from each("Autocorrelation", lags, "lags", NOT_INTEGERS | {"None": None, "0": 0})
    edges = {"text": "ab", "None": None, "50": 50, "texts": ["0", "1"], "falling": [1.0, 0.0], "complex": [0j, 1j]}
    yield from each("Histogram", functools.partial(hx.Histogram, fn), "edges", edges, "numbers that increase")

    def force(**changes):
        return hx.MeanForce(**{"system": QUIET, "temperature": 1.0} | changes)

    yield from each("MeanForce", force, "system", {"None": None, "a function": len}, "is not a system")
    yield from each("MeanForce", force, "temperature", NOT_NUMBERS | NOT_FINITE | {"-1": -1.0})
    yield from each("MeanForce", force, "which", NOT_INTEGERS | {"None": None}, "integer")
    yield Case(
        "MeanForce: no such constraint",
        lambda: simulate(system=QUIET, start=state(QUIET), observe={"x": force(which=2)}),
        "which = 2: the system has 1 constraints",
    )
    fine = {
        "a list": lambda q, p: [q[0], p[0]],
        "a truth": lambda q, p: q[2] > 0,
        "an integer": lambda q, p: jnp.sign(q[2]).astype(int),
        "a constant": lambda q, p: 1.0,
    }
    for label, function in fine.items():
        yield Case(
            f"fn: {label} is welcome", functools.partial(observe, function),
            holds=lambda run: bool(np.isfinite(run.observed["x"].mean).all()),
        )  # fmt: skip


def neighbours():
    def pairs(**changes):
        return hx.pairs(**{"cutoff": 1.0, "skin": 0.2} | changes)

    for name in ("cutoff", "skin"):
        yield from each("pairs", pairs, name, NOT_NUMBERS | NOT_FINITE | {"0": 0.0, "-1": -1.0})
    boxes = {"text": "2", "0": 0.0, "nan": NAN, "inf": INF, "-1": [4.0, -1.0], "complex": 4j, "nothing": []}
    yield from each("pairs", pairs, "box", boxes, "sides|real numbers")
    yield Case("pairs: a small box", lambda: pairs(box=1.9), "cutoff = 1 is beyond half the box, 0.95.*a larger box")
    excluded = {"text": "01", "floats": [[0.0, 1.0]], "one": [0, 1], "three": [[0, 1, 2]], "None": [[0, None]]}
    yield from each("pairs", pairs, "exclude", excluded, r"whole numbers, an array \(number, 2\)")
    yield Case("pairs: one with itself", lambda: pairs(exclude=[[1, 1]]), r"exclude\[0\].*particle 1 with itself")
    yield from each("pairs", pairs, "exclude", {"-1": [[0, -1]]}, "numbered from 0")
    yield from each("pairs", pairs, "positions", {"text": "q", "3": 3, "array": np.ones(3)}, "not a function of q")


def drawing():
    yield from each("increments", increments, "h", NOT_NUMBERS | NOT_FINITE | {"0": 0.0, "-1": -1.0})
    yield from each("increments", increments, "steps", NOT_INTEGERS | {"None": None, "0": 0})
    for argument in ("seed", "path"):
        yield from each("increments", increments, argument, NOT_COUNTERS, r"integer from 0 to 2\*\*64 - 1")
    yield from each("increments", increments, "system", {"None": None, "a function": len}, "is not a system")
    yield from each(
        "increments", increments, "method", {"a class": hx.Langevin, "a name": "Langevin"}, "is not a method"
    )
    for label, factor in (NOT_INTEGERS | {"0": 0, "3": 3}).items():
        yield Case(f"joined: {label}", lambda factor=factor: increments().joined(factor), "integer|cannot be joined")
    for label, seed in {"numpy's": np.int64(3), "array(3)": np.array(3), "jax array(3)": jnp.array(3)}.items():
        yield Case(
            f"increments: seed = {label}", lambda seed=seed: (increments(seed=seed), increments(seed=3)),
            holds=lambda both: np.array_equal(both[0].dW, both[1].dW),
        )  # fmt: skip
    yield Case(
        "simulate: seed = array(3)", lambda: (simulate(seed=np.array(3)), simulate(seed=3)),
        holds=lambda both: np.array_equal(both[0].q, both[1].q),
    )  # fmt: skip


def sampling():
    for argument in ("draws", "thin", "warmup", "inner"):
        yield from each("sample", sample, argument, NOT_INTEGERS | {"None": None, "-1": -1}, "must be|at least")
    yield from each("sample", sample, "chains", NOT_INTEGERS | {"0": 0})
    for argument in ("target_acceptance", "target_energy_error"):
        yield from each("sample", sample, argument, NOT_NUMBERS | NOT_FINITE | {"0": 0.0}, "must|is not")
    steps = {key: value for key, value in NOT_NUMBERS.items() if value is not None}
    yield from each("sample", sample, "step_size", steps | NOT_FINITE | {"0": 0.0})
    yield from each("sample", sample, "measure", NOT_CHOICES, "choose one of")
    yield from each("sample", sample, "metropolis", NOT_FLAGS, "True or False")
    yield from each("sample", sample, "friction", {"text": "1", "None": None, "0": 0.0, "nan": NAN}, "positive")
    masses = {"text": "1", "complex": 1j, "negative": -1.0, "short": [1.0, 2.0], "nan": NAN, "skew": np.tri(3)}
    yield from each("sample", sample, "mass", masses, "positive")
    yield from each("sample", sample, "q0", NOT_VECTORS | {"None": None}, "not real numbers|not an array of numbers")
    yield from each("sample", sample, "q0", {"a number": 1.0, "nothing": []}, "has shape")
    yield from each("sample", sample, "seed", NOT_COUNTERS, r"integer from 0 to 2\*\*64 - 1")
    for argument in ("engine", "dtype"):
        yield from each("sample", sample, argument, NOT_CHOICES, "choose one of")
    yield from each("sample", sample, "splitting", NOT_CHOICES, "a string of A, B and O")
    yield Case("sample: q0 off the manifold", lambda: sample(q0=[1.0, 1.0, 0.0]), "off the manifold")
    yield Case(
        "sample: chains that stand still",
        lambda: sample(lambda q: -((q @ q) ** 2), None, step_size=50.0, draws=100, warmup=0),
        r"stand still.*0 accepted.*smaller step_size",
    )


def studying():
    yield from each("strong_order", strong, "t1", NOT_NUMBERS | NOT_FINITE)
    steps = NOT_NUMBERS | {
        "0.25": 0.25,
        "one": [0.25],
        "texts": ["a", "b"],
        "a table": [[0.5, 0.25]],
        "nan": [0.25, NAN],
    }
    yield from each("strong_order", strong, "h", steps, "step size")
    for argument in ("paths", "refine"):
        yield from each("strong_order", strong, argument, NOT_INTEGERS | {"None": None}, "integer")
        yield from each("strong_order", strong, argument, {"1": 1}, "at least 2")
    yield from each("strong_order", strong, "seed", NOT_COUNTERS, r"integer from 0 to 2\*\*64 - 1")
    yield from each("strong_order", strong, "sup", NOT_FLAGS, "True or False")
    yield from each("strong_order", strong, "on_failure", NOT_CHOICES, "choose one of")
    yield from each(
        "strong_order", strong, "method", {"None": None, "a class": hx.EulerA, "a name": "EulerA"}, "not a method"
    )
    yield from each("strong_order", strong, "reference", {"a class": hx.Kicked, "a name": "Kicked"}, "not a method")
    yield from each("strong_order", strong, "start", {"a list": Q, "an array": (1, 2)}, r"build it with hx\.start")
    yield from each("strong_order", strong, "system", {"a function": len}, "is not a system")
    yield Case("strong_order: two states", lambda: strong(start=hx.start(PENDULUM, [Q, Q])), "one state")
    observables = {"None": None, "a function": len, "a list": [len]}
    yield from each("weak_order", weak, "observables", observables, "name them")
    yield from each("weak_order", weak, "exact", {"a number": 0.5, "a list": [0.5]}, "name what it is of")
    yield Case("weak_order: nothing", lambda: weak(observables={}), "observables is empty")
    for label, value in NOT_NUMBERS.items():
        yield Case(
            f"weak_order: exact x = {label}", lambda value=value: weak(exact={"x": value}), r"exact\['x'\] = .*real"
        )
    for label, several in {"one": hx.EulerA(), "None": None, "none": [], "classes": [hx.EulerA]}.items():
        yield Case(
            f"work_precision: methods = {label}",
            lambda several=several: hx.work_precision(PENDULUM, several, state(), t1=1.0, h=[0.25, 0.125], paths=4),
            "methods? = .*(pass a list|pass an instance)",
        )


def integrating():
    def integrate(**changes):
        arguments = {"system": QUIET, "method": hx.Rattle(), "start": state(QUIET)} | changes
        noise = arguments.pop("increments", None) or increments(system=QUIET)
        return hx.integrate(**arguments, increments=noise)

    yield from each("integrate", integrate, "system", {"None": None, "a function": len}, "is not a system")
    yield from each(
        "integrate", integrate, "method", {"None": None, "a class": hx.Rattle, "a name": "Rattle"}, "not a method"
    )
    yield from each("integrate", integrate, "start", {"a list": Q, "an array": np.array(Q)}, r"build it with hx\.start")
    yield from each("integrate", integrate, "increments", {"a number": 0.1, "a list": [0.1]}, "increment")
    yield Case("integrate: p = None", lambda: integrate(start=hx.State(Q, None)), r"start\.p = None")
    yield Case("integrate: two states", lambda: integrate(start=hx.start(QUIET, [Q, Q])), "one path")
    yield Case(
        "integrate: noise of another system", lambda: integrate(increments=increments()), r"increments.dW has shape"
    )
    yield Case(
        "integrate: a state of lists", lambda: integrate(start=hx.State(Q, V)), holds=lambda path: len(path.q) == 5
    )


def welcome():
    """What looks odd and is right."""
    numbers = {
        "numpy": (np.float64(1.0), np.float32(0.125)),
        "jax": (jnp.array(1.0), jnp.array(0.125)),
        "fractions": (fractions.Fraction(1), fractions.Fraction(1, 8)),
        "decimals": (Decimal("1"), Decimal("0.125")),
        "integers": (1, 0.125),
    }
    for label, (t1, h) in numbers.items():
        yield Case(
            f"simulate: {label}", lambda t1=t1, h=h: simulate(t1=t1, h=h), holds=lambda run: run.q.shape == (1, 9, 3)
        )
    yield Case("simulate: paths = numpy's", lambda: simulate(paths=np.int32(2)), holds=lambda run: len(run.q) == 2)
    yield Case(
        "simulate: a state of lists", lambda: simulate(start=hx.State(Q, V)), holds=lambda run: run.q.shape == (1, 9, 3)
    )
    yield Case(
        "simulate: late times are rounded", lambda: simulate(t0=1e6, t1=1e6 + 0.3, h=0.01, first_step=0),
        holds=lambda run: len(run.t) == 31,
    )  # fmt: skip
    yield Case("simulate: observe = {}", lambda: simulate(observe={}), holds=lambda run: run.observed == {})
    yield Case(
        "lagrangian: a partial", lambda: mechanical(L=functools.partial(lambda q, v, m: m * v @ v, m=2.0)),
        holds=lambda run: not run.status.any(),
    )  # fmt: skip
    yield Case(
        "lagrangian: jitted", lambda: mechanical(L=jax.jit(lambda q, v: v @ v)), holds=lambda run: not run.status.any()
    )
    yield Case(
        "grad of integrate",
        lambda: jax.grad(
            lambda x: hx.integrate(
                QUIET, hx.Rattle(), hx.State(jnp.array(Q), x * jnp.array(V)), increments(system=QUIET)
            ).q[-1, 2]
        )(1.0),
        holds=math.isfinite,
    )
    yield Case(
        "start under grad", lambda: jax.grad(lambda x: hx.start(QUIET, [jnp.cos(x), jnp.sin(x), 0.0 * x]).q.sum())(0.0),
        holds=lambda slope: abs(slope - 1.0) < 1e-12,
    )  # fmt: skip
    for kind in exceptions(BaseException):
        yield Case(f"pickle: {kind.__name__}", functools.partial(pickled, kind), holds=bool)


LEGAL = {  # ways to look at three coordinates that must not raise a false alarm
    "from the end": lambda q: q[-3],
    "a table": lambda q: q[jnp.array([0, -1, 2])].sum(),
    "a table of NumPy": lambda q: q[np.array([[0, 2], [1, -3]])].sum(),
    "a mask": lambda q: q[np.array([True, False, True])].sum(),
    "backwards": lambda q: q[::-1] @ q,
    "rolled": lambda q: jnp.roll(q, 1) @ q,
    "take": lambda q: jnp.take(q, jnp.array([2, -3])).sum(),
    "mapped": lambda q: jax.vmap(lambda i: q[i])(jnp.arange(3)).sum(),
    "a loop": lambda q: jax.lax.fori_loop(0, 3, lambda i, s: s + q[i], 0.0),
    "a scan": lambda q: jax.lax.scan(lambda s, i: (s + q[i], None), 0.0, jnp.arange(3))[0],
    "clipped on purpose": lambda q: q.at[7].get(mode="clip"),
    "filled on purpose": lambda q: q.at[7].get(mode="fill", fill_value=0.0),
    "set": lambda q: q.at[2].set(1.0).sum(),
    "a slice at the end": lambda q: jax.lax.dynamic_slice(q, (1,), (2,)).sum(),
    "interpolated": lambda q: jnp.interp(q[0], jnp.arange(4.0), jnp.arange(4.0) ** 2),
    "sorted": lambda q: jnp.sort(q) @ jnp.arange(3.0),
    "segments": lambda q: jax.ops.segment_sum(q, jnp.array([0, 0, 1]), 2) @ jnp.ones(2),
    "a determinant": lambda q: jnp.linalg.det(jnp.outer(q, q) + jnp.eye(3)),
    "a switch": lambda q: jax.lax.cond(True, lambda: q[0], lambda: q[2]),
    "pairs": lambda q: jnp.sum(q[np.triu_indices(3, 1)[0]] * q[np.triu_indices(3, 1)[1]]),
    "a matrix": lambda q: jnp.reshape(jnp.tile(q, 3), (3, 3))[2, -1],
    "a checkpoint": lambda q: jax.checkpoint(lambda q: jnp.sin(q[2]))(q),
    "another precision": lambda q: jnp.float32(q[0]).astype(float),
}


def legal():
    for label, function in LEGAL.items():
        yield Case(
            f"coordinates: {label}",
            lambda function=function: hx.System(
                lambda q, v: 0.5 * v @ v - function(q), function, lambda q: function(q) * jnp.ones(2)
            ).sizes(3),
            holds=lambda found: found == (1, 2),
        )


def exceptions(kind):
    """All exception classes of the library."""
    found = {kind} if kind.__module__.startswith("holonax") else set()
    return sorted(found.union(*(exceptions(x) for x in kind.__subclasses__())), key=lambda x: x.__name__)


def pickled(kind):
    original = kind("text", {"q": [1.0]}) if kind in (hx.SimulationError, hx.Interrupted) else kind("text")
    copy = pickle.loads(pickle.dumps(original))
    return type(copy) is kind and str(copy) == "text" and vars(copy) == vars(original)


def _all():
    parts = (
        functions, simulating, sizes, starting, systems, methods, observing, neighbours, drawing, sampling, studying,
        integrating, welcome, legal,
    )  # fmt: skip
    cases = {}
    for case in itertools.chain.from_iterable(part() for part in parts):
        assert case.name not in cases, case.name
        cases[case.name] = case
    return types.MappingProxyType(cases)


CASES = _all()


# `make campaign`: in a process of its own, which can be given up.


def work():
    """Judge what is asked for on the standard input, line by line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints does not disturb the answers
    print(json.dumps(["ready", ""]), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(judge(CASES[line.strip()])), file=answers, flush=True)


class Worker:
    """A process that judges, one case at a time."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.read(120.0)

    def read(self, patience):
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.end()
            return "hang", f"no answer in {patience:.0f} s"
        line = self.process.stdout.readline()
        if not line:
            self.end()
            return "crash", f"the process ended with {self.process.returncode}"
        return tuple(json.loads(line))

    def judge(self, name):
        self.process.stdin.write(f"{name}\n".encode())
        self.process.stdin.flush()
        return self.read(PATIENCE)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    @property
    def ended(self):
        return self.process.poll() is not None


def main():
    counts, unresolved, worker, begin = collections.Counter(), [], None, time.monotonic()
    for name in CASES:
        worker = worker if worker is not None and not worker.ended else Worker()
        verdict, said = worker.judge(name)
        counts[verdict] += 1
        if verdict not in GOOD:
            unresolved.append((verdict, name, said))
    worker.end()
    for verdict, name, said in sorted(unresolved):
        print(f"{verdict}: {name}\n    {said[:600]}")
    print(f"{len(CASES)} cases in {time.monotonic() - begin:.0f} s: " + ", ".join(f"{counts[x]} {x}" for x in VERDICTS))
    return 1 if unresolved else 0


if __name__ == "__main__":
    sys.exit(work() if "--work" in sys.argv else main())
