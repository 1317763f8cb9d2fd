/* Eight paths at a time: vector types, logarithm, sine and cosine, and the noise of holonax.

   With AVX-512 a `vd` is one register; elsewhere the compiler splits it.  Products and sums are contracted to fused
   operations. */

#include <stdint.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef double vd __attribute__((vector_size(64)));
typedef uint64_t vu __attribute__((vector_size(64)));
typedef int64_t vl __attribute__((vector_size(64)));

INLINE vd all(double x) { return (vd){x, x, x, x, x, x, x, x}; }
INLINE vu all_bits(uint64_t x) { return (vu){x, x, x, x, x, x, x, x}; }
INLINE vu consecutive(uint64_t x) { return (vu){x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7}; }
INLINE vd magnitude(vd x) { return (vd)((vu)x & all_bits(INT64_MAX)); }

INLINE vu high(vu x) { return x >> 32; }

/* What the language has no word for: square roots, 32 x 32 -> 64 bit products, masks. */

#if defined(__AVX512F__) && defined(__AVX512DQ__)
typedef __mmask8 mask;
INLINE vd square_root(vd x) { return (vd)_mm512_sqrt_pd((__m512d)x); }
INLINE vu product(vu x, uint64_t factor) { return (vu)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(factor)); }
INLINE mask above(vd x, vd bound) { return _mm512_cmp_pd_mask((__m512d)x, (__m512d)bound, _CMP_GT_OQ); }
INLINE mask bit_set(vu x, uint64_t bit) { return _mm512_test_epi64_mask((__m512i)x, _mm512_set1_epi64(bit)); }
INLINE vd where(mask m, vd yes, vd no) { return (vd)_mm512_mask_mov_pd((__m512d)no, m, (__m512d)yes); }
INLINE vd kept(mask m, vd x) { return (vd)_mm512_maskz_mov_pd(m, (__m512d)x); }
INLINE int any(mask m) { return m != 0; }
INLINE vd larger(vd x, vd y) { return (vd)_mm512_max_pd((__m512d)x, (__m512d)y); }
INLINE vu join(vu high, vu low) { /* the low words of both, as one number */
    return (vu)_mm512_mask_shuffle_epi32((__m512i)low, 0xAAAA, (__m512i)high, _MM_PERM_CCAA);
}
#define NO_LANE 0
#define EVERY_LANE 0xFF
#else
typedef vl mask;
INLINE vd square_root(vd x) {
    vd root;
    for (int i = 0; i < LANES; i++) root[i] = __builtin_sqrt(x[i]);
    return root;
}
INLINE vu product(vu x, uint64_t factor) {
#if defined(__AVX2__)
    union { vu whole; __m256i half[2]; } u = {x};
    u.half[0] = _mm256_mul_epu32(u.half[0], _mm256_set1_epi64x(factor));
    u.half[1] = _mm256_mul_epu32(u.half[1], _mm256_set1_epi64x(factor));
    return u.whole;
#else
    return (x & all_bits(UINT32_MAX)) * all_bits(factor);
#endif
}
INLINE mask above(vd x, vd bound) { return x > bound; }
INLINE mask bit_set(vu x, uint64_t bit) { return (x & all_bits(bit)) != all_bits(0); }
INLINE vd where(mask m, vd yes, vd no) { return (vd)(((vl)yes & m) | ((vl)no & ~m)); }
INLINE vd kept(mask m, vd x) { return (vd)((vl)x & m); }
INLINE int any(mask m) {
    int64_t bits = 0;
    for (int i = 0; i < LANES; i++) bits |= m[i];
    return bits != 0;
}
INLINE vd larger(vd x, vd y) { return where(x > y, x, y); }
INLINE vu join(vu high, vu low) { return (high << 32) | (low & all_bits(UINT32_MAX)); }
#define NO_LANE (vl){0}
#define EVERY_LANE (~(vl){0})
#endif

/* Elementary functions, of several vectors at once: their chains of operations do not wait for each other. */

#define EACH(j, number) _Pragma("GCC unroll 64") for (int j = 0; j < (number); j++)
enum { MOST = 32 }; /* vectors at once */

/* Interpolation at Chebyshev points, lowest power first: sin(pi t/2)/t in powers of t^2 for |t| <= 1/2 and |t| <= 1,
   cos(pi t/2) for |t| <= 1/2, (2 artanh s)/s in powers of s^2 for |s| <= (sqrt 2 - 1)/(sqrt 2 + 1), and
   (sin x - x)/x^3 in powers of x^2 for |x| <= pi/2. */
static const double HALF_SINE[] = {1.5707963267948966,    -0.6459640975062443,    0.07969262624604301,
                                   -0.004681754132340976, 0.0001604411507421909,  -3.5986433529823095e-06,
                                   5.6339337815378516e-08};
static const double FULL_SINE[] = {1.5707963267948963,    -0.6459640975062232,     0.07969262624568337,
                                   -0.004681754131447062, 0.0001604411695631063,   -3.5988107063136794e-06,
                                   5.688318064017795e-08, -6.449471237809132e-10};
static const double HALF_COSINE[] = {1.0,
                                     -1.2337005501361513,
                                     0.25366950789986475,
                                     -0.02086348073494657,
                                     0.000919259950041661,
                                     -2.520013526428479e-05,
                                     4.65529618748676e-07};
static const double LOGARITHM[] = {2.0,
                                   6.66666666666667e-01,
                                   3.9999999999899505e-01,
                                   2.8571428625975487e-01,
                                   2.222221113479508e-01,
                                   1.8182889125261723e-01,
                                   1.5331721600556042e-01,
                                   1.4616449685043406e-01};
static const double SINE[] = {-0.16666666666666666,   0.008333333333333316,   -0.00019841269841254966,
                              2.7557319219160833e-06, -2.505210761669045e-08, 1.6058977292642743e-10,
                              -7.643969663988072e-13, 2.731436876937957e-15};

INLINE void polynomial(const double *coefficients, int terms, int number, const vd *x, vd *value) {
    EACH(j, number) value[j] = all(coefficients[terms - 1]);
#pragma GCC unroll 16
    for (int i = terms - 2; i >= 0; i--) EACH(j, number) value[j] = value[j] * x[j] + all(coefficients[i]);
}
#define POLYNOMIAL(coefficients, number, x, value)                                                                   \
    polynomial(coefficients, sizeof(coefficients) / sizeof(double), number, x, value)

INLINE void logarithm(int number, const vd *x, vd *result) { /* of positive, normal numbers */
    const int64_t half = 0x3FE6A09E667F3BCD;                 /* sqrt(1/2) */
    const double ln2 = 0x1.62e42fefa39efp-1;
    vd exponent[MOST], s[MOST], square[MOST], rest[MOST];
    EACH(j, number) {
        vl whole = ((vl)x[j] - half) >> 52;
        vd f = (vd)((vl)x[j] - (whole << 52)) - 1.0;
        exponent[j] = __builtin_convertvector(whole, vd);
        s[j] = f / (2.0 + f);
        square[j] = s[j] * s[j];
    }
    POLYNOMIAL(LOGARITHM, number, square, rest);
    EACH(j, number) result[j] = s[j] * rest[j] + exponent[j] * ln2;
}

INLINE void cosine(int number, const vd *x, vd *result) { /* = +-sin(r) with r = x - (t + 1/2) pi, |r| <= pi/2 */
    const double round = 0x1.8p52, pi = 0x1.921fb54442d18p+1, remainder = 0x1.1a62633145c07p-53;
    vu sign[MOST];
    vd r[MOST], square[MOST], rest[MOST];
    EACH(j, number) {
        vd shifted = (x[j] * 0x1.45f306dc9c883p-2 - 0.5) + round;
        vd turns = (shifted - round) + 0.5;
        sign[j] = ~(vu)shifted << 63; /* minus where t is even */
        r[j] = (x[j] - turns * pi) - turns * remainder;
        square[j] = r[j] * r[j];
    }
    POLYNOMIAL(SINE, number, square, rest);
    EACH(j, number) result[j] = (vd)((vu)(r[j] + r[j] * square[j] * rest[j]) ^ sign[j]);
}

/* Noise: Philox4x32-10 with the counter (step, block, path, 0), two normal numbers per block. */

#define ROUNDS 10
static const uint64_t MULTIPLIER0 = 0xD2511F53, MULTIPLIER1 = 0xCD9E8D57;

typedef struct {
    uint64_t key0[ROUNDS], key1[ROUNDS];
} schedule;

INLINE schedule round_keys(uint64_t seed) {
    schedule keys;
    for (int i = 0; i < ROUNDS; i++) {
        keys.key0[i] = (uint32_t)(seed + i * UINT64_C(0x9E3779B9));
        keys.key1[i] = (uint32_t)((seed >> 32) + i * UINT64_C(0xBB67AE85));
    }
    return keys;
}

/* What a block is made into: u in (0, 1], t in [-1/2, 1/2), and a word of which two bits are not in t. */
typedef struct {
    vd u, t;
    vu bits;
} uniform;

/* Blocks `block`, `block + 1`, ...  Only the low word of every 64-bit lane is meant, except at the end, where both
   words of a number are joined.  In the first round the first product is the same for all paths, the second one for
   all steps; in the next round it is the other way round. */
INLINE void philox(const schedule *keys, vu path, uint64_t step, uint64_t block, int number, uniform *result) {
    uint64_t uniform0 = MULTIPLIER0 * (uint32_t)step;
    uint64_t uniform1 = MULTIPLIER1 * ((uniform0 >> 32) ^ keys->key1[0]);
    vu c0[MOST], c1[MOST], c2[MOST], c3[MOST];
    EACH(j, number) {
        c1[j] = product(path, MULTIPLIER1);
        c3[j] = product(high(c1[j]) ^ all_bits((block + j) ^ keys->key0[0]), MULTIPLIER0);
        c0[j] = c1[j] ^ all_bits((uniform1 >> 32) ^ keys->key0[1]);
        c2[j] = high(c3[j]) ^ all_bits((uint32_t)uniform0 ^ keys->key1[1]);
        c1[j] = all_bits(uniform1);
    }
#pragma GCC unroll 10
    for (int i = 2; i < ROUNDS; i++) EACH(j, number) {
        vu product0 = product(c0[j], MULTIPLIER0), product1 = product(c2[j], MULTIPLIER1);
        c0[j] = high(product1) ^ c1[j] ^ all_bits(keys->key0[i]);
        c2[j] = high(product0) ^ c3[j] ^ all_bits(keys->key1[i]);
        c1[j] = product1;
        c3[j] = product0;
    }
    const vu one = all_bits(UINT64_C(0x3FF) << 52);
    EACH(j, number) result[j].u = 2.0 - (vd)(join(c0[j], c1[j]) >> 12 | one);
    EACH(j, number) result[j].t = (vd)(join(c2[j], c3[j]) >> 12 | one) - 1.5;
    EACH(j, number) result[j].bits = c3[j];
}

/* The first `wanted` normal numbers of variance h from their blocks, given `scale` = -2h. */
INLINE void box_muller(const uniform *from, int wanted, vd scale, vd *result) {
    int number = (wanted + 1) / 2, pairs = wanted / 2;
    const vu minus = all_bits(UINT64_C(1) << 63);
    vd radius[MOST], t[MOST], square[MOST], sine[MOST], cosine[MOST];
    mask swap[MOST];
    EACH(j, number) radius[j] = from[j].u;
    logarithm(number, radius, radius);
    EACH(j, number) radius[j] = square_root(scale * radius[j]);
    EACH(j, number) swap[j] = bit_set(from[j].bits, 1);
    EACH(j, number) t[j] = from[j].t;
    EACH(j, pairs) square[j] = t[j] * t[j];
    POLYNOMIAL(HALF_SINE, pairs, square, sine);
    POLYNOMIAL(HALF_COSINE, pairs, square, cosine);
    EACH(j, pairs) {
        sine[j] = t[j] * sine[j];
        cosine[j] = (vd)((vu)cosine[j] ^ (from[j].bits << 62 & minus));
        result[2 * j] = radius[j] * where(swap[j], sine[j], cosine[j]);
        result[2 * j + 1] = radius[j] * where(swap[j], cosine[j], sine[j]);
    }
    if (pairs < number) { /* of the last pair only the first: either t's sine, or that of +-(1 - |t|) */
        vd other = (vd)((vu)(1.0 - magnitude(t[pairs])) ^ (from[pairs].bits << 62 & minus));
        other = where(swap[pairs], t[pairs], other);
        square[pairs] = other * other;
        POLYNOMIAL(FULL_SINE, 1, square + pairs, sine + pairs);
        result[wanted - 1] = (radius[pairs] * other) * sine[pairs];
    }
}

INLINE void normals(const schedule *keys, vu path, uint64_t step, uint64_t block, int wanted, vd scale, vd *result) {
    uniform from[MOST];
    philox(keys, path, step, block, (wanted + 1) / 2, from);
    box_muller(from, wanted, scale, result);
}
