"""Functions that stay whole: one equation of a traced program instead of many.

What JAX traces is a list of elementary operations; a compiler that could do better with a function as a whole would
have to find it in there.  `whole` makes a function a primitive of JAX, which its name tells from others.  It computes,
maps, compiles and differentiates like the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def whole(function: Callable[..., Array]) -> Primitive:
    """The primitive of a function of arrays with one array as its value; `.bind(*arrays)` calls it."""
    primitive = Primitive(function.__name__)

    def types(*arguments: Any) -> Any:
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments]
        result = jax.eval_shape(function, *shapes)
        return jax.core.ShapedArray(result.shape, result.dtype)

    def batch(arguments: Sequence[Any], axes: Sequence[Any]) -> tuple[Array, int]:
        return jax.vmap(function, tuple(axes))(*arguments), 0

    def derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Array, Any]:
        """JAX asks only where some argument moves."""
        moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

        def along(*moved: Any) -> Array:
            places = dict(zip(moving, moved, strict=True))
            return function(*(places.get(i, x) for i, x in enumerate(primals)))

        return jax.jvp(along, [primals[i] for i in moving], [tangents[i] for i in moving])

    primitive.def_impl(jax.jit(function))
    primitive.def_abstract_eval(types)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    batching.primitive_batchers[primitive] = batch
    ad.primitive_jvps[primitive] = derivative
    return primitive
