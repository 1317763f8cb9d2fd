"""Bad input: no silence, no error from the depths, no hang.  A share here; `make campaign` runs and counts all."""

import jax.numpy as jnp
import numpy as np
import pytest

import campaign
import holonax as hx
from holonax.observables import Observable

SHARE = 5  # one in so many


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.corpus] if number % SHARE else [])
        for number, name in enumerate(campaign.CASES)
    ],
)
def test_what_comes_of_it(name):
    verdict, said = campaign.judge(campaign.CASES[name])
    assert verdict in campaign.GOOD, f"{verdict}: {said}"


def test_every_observable_is_in_the_campaign():
    public = {name: getattr(hx, name) for name in hx.__all__}
    kinds = {name for name, x in public.items() if isinstance(x, type) and issubclass(x, Observable)}
    assert campaign.OBSERVABLES.keys() == kinds - {"MeanForce"}  # whose arguments are others


def test_the_campaign_tells_verdicts_apart():
    def fail(error):
        raise error

    cases = {
        "clear error": campaign.Case("", lambda: fail(hx.InputError("h = 0: use more")), "h = 0.*use more"),
        "confusing": campaign.Case("", lambda: fail(hx.InputError("no")), "h = 0"),
        "from the depths": campaign.Case("", lambda: fail(TypeError("h = 0")), "h = 0"),
        "silent": campaign.Case("", lambda: 3, "h = 0"),
        "fine": campaign.Case("", lambda: 3, holds=lambda x: x == 3),
    }
    for verdict, case in cases.items():
        assert campaign.judge(case)[0] == verdict
    assert campaign.judge(campaign.Case("", lambda: 3, holds=lambda x: x == 4))[0] == "silent"
    assert campaign.judge(campaign.Case("", lambda: fail(hx.InputError("no"))))[0] == "confusing"
    assert campaign.judge(campaign.Case("", lambda: fail(hx.InputError("a BatchTracer")), "a"))[0] == "from the depths"


def test_the_user_s_own_error_stays_the_cause():
    def lagrangian(q, v):
        raise KeyError("mass")

    with pytest.raises(
        hx.InputError, match=r"lagrangian raised KeyError: 'mass' \(line \d+ of .*test_campaign"
    ) as caught:
        hx.start(hx.System(lagrangian), q=[1.0])
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (lambda q: q[jnp.nonzero(q > 0)[0]], "must not depend on the state"),
        (lambda q: q[q > 0], "must not depend on the state"),
        (lambda q: q[0] if q[1] > 0 else q[2], "jnp.where instead of if"),
        (lambda q: q[np.array([0, 6000])], "index 6000 is out of bounds for axis 0 with size 6000"),
    ],
    ids=["nonzero", "mask", "if", "index"],
)
def test_patterns_that_depend_on_the_state_and_indices_out_of_range(constraint, said):
    with pytest.raises(hx.InputError, match=said):
        hx.start(hx.System(lambda q, v: 0.5 * v @ v, constraint, n=6000), np.ones(6000))
