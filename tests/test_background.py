"""Work in threads: results in order, whoever is done when."""

from concurrent.futures import Future

import pytest

from holonax.background import _wait, in_order


class DoneJustThen(Future):
    """Ends between a look that was too early and the question whether it is done."""

    def __init__(self, outcome):
        super().__init__()
        self.outcome = outcome

    def result(self, timeout=None):
        if not self.done():
            self.set_exception(self.outcome) if isinstance(self.outcome, Exception) else self.set_result(self.outcome)
            raise TimeoutError
        return super().result(timeout)


def test_a_result_that_comes_while_nobody_looks_is_not_lost():
    assert _wait(DoneJustThen(5), lambda: None) == 5


def test_what_a_function_raises_is_raised():
    with pytest.raises(TimeoutError, match="of the function's own"):
        _wait(DoneJustThen(TimeoutError("of the function's own")), lambda: None)


def test_results_come_in_the_order_of_the_items():
    assert [*in_order(lambda x: x * x, range(20), 3, lambda: None)] == [x * x for x in range(20)]
