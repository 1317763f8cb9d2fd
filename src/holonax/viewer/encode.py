"""Arrays as short text that a page can hold: 16 bits over their range, differences in time, deflated, base64."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

LEVELS = 65534
"""Steps of the range; the last code is for what is not a number."""

MISSING = 65535


def deflated(data: bytes) -> str:
    """As text."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def exact(values: np.ndarray) -> dict[str, Any]:
    """Numbers as they are, in 64 bits; bytes of the same place together, which deflates better."""
    raw = np.ascontiguousarray(values, "<f8")
    return {"shape": list(values.shape), "data": deflated(raw.view(np.uint8).reshape(-1, 8).T.tobytes())}


def integers(values: np.ndarray) -> dict[str, Any]:
    """Whole numbers of 32 bits, by their differences."""
    steps = np.diff(values.ravel().astype(np.int64), prepend=0).astype("<i4")
    return {"shape": list(values.shape), "data": deflated(steps.view(np.uint8).reshape(-1, 4).T.tobytes())}


def quantised(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Values (times, paths, channels) rounded to 16 bits between the bounds of each channel.

    Successive times differ by little: what is deflated are their differences (modulo 2^16), with the sign in the last
    bit so that small ones of either sign are small, low bytes before high bytes.
    """
    step = np.where(high > low, (high - low) / LEVELS, 1.0)
    known = np.isfinite(values)
    codes = np.where(known, np.rint((np.where(known, values, low) - low) / step), MISSING).astype(np.uint16)
    steps = np.diff(codes, axis=0, prepend=np.zeros_like(codes[:1])).view(np.int16)
    folded = ((steps << 1) ^ (steps >> 15)).view(np.uint16).ravel().astype("<u2")
    data = deflated(folded.view(np.uint8).reshape(-1, 2).T.tobytes())
    return {"shape": list(values.shape), "low": low.tolist(), "step": step.tolist(), "data": data}
