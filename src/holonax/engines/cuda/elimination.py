"""What the threads of a block do together, as CUDA C: meet, agree, and eliminate (`holonax.numerics.tape`)."""

from __future__ import annotations

from holonax.numerics.tape_runs import DIAGONAL, SUMS

QUOTIENTS = 3
"""A kind of sums beside those of a tape: they are divided by a pivot."""

EPSILON = {"double": 2.0**-52, "float": 2.0**-23}

_TOGETHER = """
__device__ __forceinline__ void barrier() { %(barrier)s; }
__device__ __forceinline__ bool some_thread(bool x) { return %(some)s; }
"""

_FUNCTIONS = """
__device__ __forceinline__ uint2 pair_at(const uint2 *pairs, int k) { return __ldg(pairs + k); }
__device__ __forceinline__ uint2 pair_at(const unsigned *pairs, int k) {
    const unsigned x = __ldg(pairs + k);
    return uint2{x & 0xffffu, x >> 16};
}
__device__ __forceinline__ real minus_product(real total, real x, real y, real &subtracted) {
    subtracted += fabs(x * y);
    return fma(-x, y, total);
}
__device__ __forceinline__ bool is_bad(real pivot, real subtracted, real bound, real sign) {
    const real size = fabs(pivot);
    return !(size > bound * (size + subtracted)) || !(sign * pivot >= 0);
}
template <class Sum, class Own, class Term> __device__ __forceinline__ void sweep(
    real *w, const Sum *sums, const Own *own, const int *first, const Term *terms, const int2 *levels, int number,
    int inverse, const real *signs, const real *bounds, bool &bad, int thread) {
    for (int level = 0; level < number; ++level) {
        const int2 opening = __ldg(levels + level);
        const int end = __ldg(levels + level + 1).x;
        for (int t = opening.x + thread; t < end; t += %(threads)s) {
            const uint2 sum = pair_at(sums, t), about = pair_at(own, t);
            const int begin = __ldg(first + t), last = begin + (int)(about.y >> 2), what = about.y & 3;
            real total = w[sum.y], subtracted = 0;
            const real scale = w[about.x];
            for (int k = begin; k < last; ++k) {
                const uint2 term = pair_at(terms, k);
                total = minus_product(total, w[term.x], w[term.y], subtracted);
            }
            if (what == %(sums)s) w[sum.x] = total * scale;
            else if (what == %(quotients)s) w[sum.x] = total * reciprocal(scale);
            else if (what == %(diagonal)s) {
                w[sum.x] = total;
                w[sum.x + opening.y] = scale + subtracted;
            } else {
                const int which = sum.x - inverse;
                bad = bad || is_bad(total, scale, __ldg(bounds + which), __ldg(signs + which));
                w[sum.x] = reciprocal(total);
            }
        }
        barrier();
    }
}
__device__ __forceinline__ void dense_factorise(
    real *m, int size, real *inverse, const real *signs, real *subtracted, bool &bad, int thread) {
    for (int i = thread; i < size; i += %(threads)s) subtracted[i] = 0;
    barrier();
    for (int j = 0; j < size; ++j) {
        const real pivot = m[j * size + j], inverted = reciprocal(pivot);
        bad = bad || is_bad(pivot, subtracted[j], (j + 1) * (real)%(epsilon)s, __ldg(signs + j));
        if (thread == 0) inverse[j] = inverted;
        const int left = size - j - 1;
        for (int e = thread; e < left * left; e += %(threads)s) {
            const int i = j + 1 + e / left, k = j + 1 + e %% left;
            const real product = m[i * size + j] * inverted * m[j * size + k];
            m[i * size + k] -= product;
            if (i == k) subtracted[i] += fabs(product);
        }
        barrier();
    }
}
__device__ __forceinline__ void dense_substitute(real *m, int size, const real *inverse, real *x, int thread) {
    for (int j = 0; j < size; ++j) {
        const real known = x[j] * inverse[j];
        for (int i = j + 1 + thread; i < size; i += %(threads)s) x[i] -= m[i * size + j] * known;
        barrier();
    }
    for (int j = size - 1; j >= 0; --j) {
        const real known = x[j] * inverse[j];
        for (int i = thread; i < j; i += %(threads)s) x[i] -= m[i * size + j] * known;
        barrier();
    }
    for (int j = thread; j < size; j += %(threads)s) x[j] *= inverse[j];
    barrier();
}
"""
"""In the dense matrix, the lower factors are not divided by pivots: nobody has to wait until that is done."""


def block_functions(real: str, threads: int) -> str:
    """The source, for numbers of a type and blocks of so many threads; a warp by itself need not wait for others."""
    alone = threads == 32
    together = {
        "barrier": "__syncwarp()" if alone else "__syncthreads()",
        "some": "__any_sync(0xffffffffu, x)" if alone else "__syncthreads_or(x)",
    }
    names = {
        "threads": threads,
        "epsilon": repr(EPSILON[real]),
        "sums": SUMS,
        "diagonal": DIAGONAL,
        "quotients": QUOTIENTS,
    }
    return f"typedef {real} real;\n" + _TOGETHER % together + _FUNCTIONS % names
