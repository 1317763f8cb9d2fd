"""`python -m benchmarks.large_process name`: the process of a case of `benchmarks.large`, on its cores.

Numbers are printed as they are found, as lines of JSON: key, number, note.
"""

from __future__ import annotations

import json
import sys

from benchmarks.large import CASES
from benchmarks.measure import allow_cores, schedulable_cores


def main() -> None:
    """Take the cores before anything starts threads, then measure."""
    name = sys.argv[1]
    allow_cores(schedulable_cores()[-CASES[name].cores :])
    from benchmarks.large_cases import MEASURED

    for key, value, note in MEASURED[name]():
        assert key in CASES[name].asked, key
        print(json.dumps([key, float(value), note]), flush=True)


if __name__ == "__main__":
    main()
