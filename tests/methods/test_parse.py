"""Methods as text: what `Method.parse` makes of it, what it refuses, and that no subclass of a user's has a say."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import pytest

import holonax as hx
from holonax.cli.naming import find_method, name_of
from holonax.methods.text import PARTS, read, required_arguments, written

EXAMPLES = list(hx.Method.examples())
LIST = ", ".join(kind.__name__ for kind in hx.Method.listed)
LANGEVIN = [
    hx.Langevin(1.0, 0.5),
    hx.Langevin(1e-3, 0.0, "OBABO", inner=np.int64(2)),
    hx.Langevin((1.0, 0.0, 2.5), 0.5, metropolis=np.True_),
    hx.Langevin(1.0, 0.5, core=hx.Rattle()),
    hx.Langevin(1.0, 0.5, core=hx.Kicked("milstein-tretyakov", hx.Newton(50, 1e-9)), newton=hx.Newton(tolerance=1e-6)),
]
TABLEAUX = [
    *(one for one in hx.tableaux.TABLEAUX.values() if isinstance(one, hx.Tableau)),
    hx.tableaux.lobatto(5),
    hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], kappa=[1 / 3, -1 / 3]),
]
OTHERS = [
    *LANGEVIN,
    *(hx.VPRK(tableau) for tableau in TABLEAUX),
    hx.VPRK(hx.tableaux.RATTLE, hx.Newton(50)),
    hx.Rattle(hx.Newton(max_iterations=50)),
    hx.Lobatto(np.int32(4), hx.Newton(tolerance=1e-8)),
]


def test_the_list_has_every_method_of_the_package():
    public = [getattr(hx, name) for name in hx.__all__]
    methods = [one for one in public if isinstance(one, type) and issubclass(one, hx.Method) and one is not hx.Method]
    assert sorted(hx.Method.listed, key=str) == sorted(methods, key=str)


def test_examples_are_those_of_the_list_in_its_order():
    kinds = list(dict.fromkeys(type(method) for method in EXAMPLES))
    assert kinds == [kind for kind in hx.Method.listed if not required_arguments(kind)]
    assert list(hx.Kicked.examples()) == [hx.Kicked(x) for x in ("symmetric", "milstein-tretyakov", "midpoint")]
    assert list(hx.Lobatto.examples()) == [hx.Lobatto(stages) for stages in (3, 4, 5, 6)]
    assert list(hx.Langevin.examples()) == []


@pytest.mark.parametrize("method", [*EXAMPLES, *OTHERS], ids=str)
def test_a_method_is_read_as_it_is_written(method):
    assert hx.Method.parse(written(method)) == method
    assert hx.Method.parse(name_of(method)) == method
    assert find_method(name_of(method)) == method


@pytest.mark.parametrize("method", [*EXAMPLES, LANGEVIN[0], LANGEVIN[3]], ids=str)
def test_a_method_is_read_as_python_prints_it(method):
    assert hx.Method.parse(repr(method)) == method


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (hx.EulerA(), "EulerA"),
        (hx.Lobatto(3), "Lobatto"),
        (hx.Lobatto(4), "Lobatto:4"),
        (hx.Kicked("milstein-tretyakov"), "Kicked:milstein-tretyakov"),
        (hx.Langevin(1.0, 0.5, metropolis=True), "Langevin:1.0,0.5,metropolis=True"),
        (hx.Langevin(1.0, 0.5, core=hx.Lobatto(4)), "Langevin:1.0,0.5,core=Lobatto(4)"),
        (hx.VPRK(hx.tableaux.LOBATTO_32), "VPRK:LOBATTO_32"),
        (hx.Rattle(hx.Newton(50)), "Rattle:newton=Newton(50)"),
    ],
)
def test_names_leave_out_what_is_the_default(method, name):
    assert name_of(method) == name


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("EulerA", hx.EulerA()),
        (" EulerA( )\n", hx.EulerA()),
        ("hx.EulerA()", hx.EulerA()),
        ("EulerA:", hx.EulerA()),
        ("EulerA(newton=Newton(max_iterations=50))", hx.EulerA(hx.Newton(50))),
        ("Lobatto", hx.Lobatto(3)),
        ("Lobatto(4)", hx.Lobatto(4)),
        ("Lobatto(stages=4)", hx.Lobatto(4)),
        ("Lobatto:stages=4", hx.Lobatto(4)),
        ('Kicked("midpoint")', hx.Kicked("midpoint")),
        ("Kicked(midpoint)", hx.Kicked("midpoint")),
        ("Kicked(scheme=milstein-tretyakov)", hx.Kicked("milstein-tretyakov")),
        ("Langevin(friction=1, temperature=0.5, metropolis=True)", hx.Langevin(1.0, 0.5, metropolis=True)),
        ("Langevin([1, 2, 3e-1], .5)", hx.Langevin((1.0, 2.0, 0.3), 0.5)),
        ("Langevin(1, 0.5, core=Rattle())", hx.Langevin(1.0, 0.5, core=hx.Rattle())),
        ("Langevin:1,0.5,core=Rattle", hx.Langevin(1.0, 0.5, core=hx.Rattle())),
        ("Langevin(1, 0.5, core=VPRK(RATTLE))", hx.Langevin(1.0, 0.5, core=hx.VPRK(hx.tableaux.RATTLE))),
        ("Langevin(1, 0.5, core=None)", hx.Langevin(1.0, 0.5)),
        ("VPRK(RATTLE)", hx.VPRK(hx.tableaux.RATTLE)),
        ("VPRK:lobatto(3)", hx.VPRK(hx.tableaux.lobatto(3))),
        ("VPRK(hx.tableaux.lobatto(stages=3))", hx.VPRK(hx.tableaux.lobatto(3))),
        ("VPRK(Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], kappa=[1, -1]))", None),
    ],
)
def test_what_a_text_stands_for(text, method):
    trapezoidal = hx.Tableau([[0, 0], [0.5, 0.5]], [0.5, 0.5], kappa=[1, -1])
    assert hx.Method.parse(text) == (method or hx.VPRK(trapezoidal))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (3, r"text = 3 is not a str; pass one such as 'Lobatto\(4\)'"),
        ("", rf"there is no method '': invalid syntax; write NAME or .* one of {LIST}$"),
        ("rattle", rf"there is no method 'rattle' \(did you mean Rattle\?\); choose one of {LIST}$"),
        ("Lobato(4)", r"there is no method 'Lobato' \(did you mean Lobatto"),
        ("RATTLE", r"there is no method 'RATTLE' \(did you mean Rattle\?\)"),
        ("lobatto(3)", r"there is no method 'lobatto' \(did you mean Lobatto"),
        ("Tableau", r"there is no method 'Tableau'"),
        ("3", r"there is no method '3'; choose"),
        ("EulerA, EulerB", r"there is no method 'EulerA, EulerB'"),
        ("EulerA()()", r"there is no method 'EulerA\(\)'"),
        ("file.py:name", r"there is no method 'file\.py'"),
        ("Lobatto(4", r"there is no method 'Lobatto\(4': '\(' was never closed; write"),
        ("Langevin(friction=1, 0.5)", r"positional argument follows keyword argument"),
        ("Euler\0A", r"there is no method 'Euler\\x00A': .*null bytes"),
        ("Euler\udce9", r"there is no method 'Euler\\udce9': .*surrogates not allowed"),
        ("-" * 100_000 + "1", r"there is no method '-----.*\.\.\.: .*; write NAME"),
        ("Rattle(3)", r"Rattle takes no argument '3'; it takes none, and by name newton$"),
        ("Lobatto(4, 5)", r"Lobatto takes no argument '5'; it takes stages, and by name newton$"),
        ("Lobatto(stage=4)", r"Lobatto takes no argument 'stage=4'; it takes stages, and by name newton$"),
        ("Lobatto(**x)", r"Lobatto takes no argument '\*\*x'"),
        ("Lobatto(*x)", r"'\*x' is not a value"),
        ("Lobatto(4, stages=5)", r"Lobatto is given stages twice; leave out 'stages=5'"),
        ("Lobatto(stages=4, stages=5)", r"stages"),
        ("Lobatto(7)", r"stages = 7: Lobatto tableaux are provided for 2, 3, 4, 5 and 6 stages$"),
        ("Lobatto(2 + 2)", r"'2 \+ 2' is not a value; write a number, a word, text in quotes, or one of Newton, Tab"),
        ("Lobatto({[]: 1})", r"'\{\[\]: 1\}' is not a value"),
        ("Lobatto(print(4))", rf"there is no 'print'.*; choose one of {', '.join(PARTS)}, {LIST}$"),
        ("Lobatto((lambda: 4)())", r"there is no '\(?lambda: 4"),
        ("Kicked(often)", r"scheme = 'often': choose one of 'symmetric', 'milstein-tretyakov', 'midpoint'"),
        ("Kicked(True)", r"scheme = True: choose"),
        ("Langevin", r"Langevin needs friction and temperature; write Langevin:friction,temperature$"),
        ("Langevin(1)", r"Langevin needs friction and temperature"),
        ("Langevin(1, x)", r"temperature = 'x': must be a real number"),
        (f"Langevin(1{'0' * 400}, 1)", r"'Langevin\(10+.*: .*too large.*; pass other values"),
        ("Langevin(1, 1, core=EulerPrinted)", r"core = EulerPrinted\(\) is not a symplectic method"),
        ("Langevin(1, 1, core=Langevin)", r"Langevin needs friction and temperature; write Langevin\(friction, temp"),
        ("VPRK", r"VPRK needs tableau; write VPRK:tableau$"),
        ("VPRK(rk4)", r"tableau = 'rk4' is not a tableau; pass one such as hx\.tableaux\.RATTLE"),
        ("VPRK(lobatto)", r"lobatto needs stages; write lobatto\(stages\)$"),
        ("VPRK(lobato(3))", r"there is no 'lobato' \(did you mean lobatto or Lobatto"),
        ("VPRK(RATTLE())", r"RATTLE takes no arguments; write RATTLE without brackets"),
        ("VPRK(Tableau([[0, 0], [1, 0]], [1, 0]))", r"cannot carry constraints: b_2 = 0"),
        ("EulerA(newton=Newton(0))", r"max_iterations = 0: Newton needs at least 1 iteration"),
        ("EulerA(newton=3)", r"newton = 3 is not a newton; pass one such as hx\.Newton"),
    ],
)
def test_bad_texts_are_refused_with_a_remedy(text, message):
    with pytest.raises(hx.InputError, match=message):
        hx.Method.parse(text)


def test_nothing_in_a_text_is_run(tmp_path):
    for text in ("__import__('os').mkdir({!r})", "Lobatto(__import__('os').mkdir({!r}))", "Lobatto(open({!r}, 'w'))"):
        with pytest.raises(hx.InputError):
            hx.Method.parse(text.format(str(tmp_path / "made")))
    assert not list(tmp_path.iterdir())


def test_a_method_of_one_s_own_changes_nothing():
    """Also if it is final and has an argument without a default."""

    @final
    @dataclass(frozen=True)
    class Mine(hx.Method):
        strength: object

        order: ClassVar[int] = 1
        strong_order: ClassVar[float] = 1.0
        weak_order: ClassVar[int] = 1
        symmetric: ClassVar[bool] = False
        cost: ClassVar[str] = "n + k"

        def step(self, system, state, increment):
            return hx.EulerA().step(system, state, increment)

    @final
    @dataclass(frozen=True)
    class EulerA(hx.EulerMaruyama):
        """One that has the name of ours."""

    assert list(hx.Method.examples()) == EXAMPLES
    assert list(Mine.examples()) == []
    assert hx.Method.parse("EulerA") == find_method("EulerA") == hx.EulerA() != EulerA()
    with pytest.raises(hx.InputError, match=rf"there is no method 'Mine'; choose one of {LIST}"):
        hx.Method.parse("Mine(1.0)")
    for strength in (2.0, "much", "very-much", "RATTLE", "True", "a b"):
        assert read(written(Mine(strength)), "method", {"Mine": Mine}) == Mine(strength)
    assert written(Mine("very-much")) == "Mine(very-much)"
