/* reference.c for a GPU: one thread per path, the whole time loop in the kernel, state and noise in registers.

   The same equations, noise and stopping rule, in double precision, or with -DSINGLE in single precision (then with 23
   random bits where there are 52).  With -DTUNED the system's algebra is used as in reference.c, and reciprocals and
   roots begin with the hardware's approximation of 20 bits; Newton's slope needs no more.  Compile for NVIDIA with
   NVRTC or nvcc; -DBEADS for the chain.

   Every kernel takes `paths` paths, all starting at (q0, p0), and leaves end states in q and p, of shape (n, paths). */

#ifndef BEADS
#define BEADS 8
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static __device__ __forceinline__
#define XYZ _Pragma("unroll") for (int i = 0; i < 3; i++)
#define MAX_ITERATIONS 25

/* Precision: constants, polynomials (as in lanes.h), bits, reciprocals, roots. */

#ifdef SINGLE
typedef float real;
#define TOLERANCE 3.4526698e-05f /* 0.1 sqrt(eps) */
#define FLOOR 1.9073486e-06f     /* 16 eps */
#define ROUND 12582912.0f        /* adding it rounds to a whole number */
#define PI 3.14159274f
#define PI_REST -8.74227766e-08f
#define HALF_SINE 1.57079632f, -0.645963478f, 0.0796802176f, -0.00460214921f
#define FULL_SINE 1.57079632f, -0.64596376f, 0.0796899183f, -0.00467414384f, 0.000151671704f
#define HALF_COSINE 1.0f, -1.23370054f, 0.253669204f, -0.0208600695f, 0.000903628066f
#define LOGARITHM 2.0f, 0.666668153f, 0.399748505f, 0.299243905f
#define SINE -0.166666667f, 0.00833333277f, -0.000198410866f, 2.75364636e-06f, -2.40801904e-08f
DEVICE u32 low_word(real x) { return __float_as_uint(x); }
DEVICE real mantissa(u32 high, u32) { return __uint_as_float(high >> 9 | 0x3F800000u); } /* in [1, 2) */
DEVICE real split(real x, real *exponent) { /* x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2) */
    int bits = __float_as_int(x), whole = (bits - 0x3F3504F3) >> 23;
    *exponent = (real)whole;
    return __int_as_float(bits - (whole << 23)) - 1.0f;
}
#ifdef TUNED
DEVICE real rough_reciprocal(real x) {
    real y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE real reciprocal(real x) { return rough_reciprocal(x); }
DEVICE real root(real x) {
    real y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
#else
typedef double real;
#define TOLERANCE 1.4901161193847657e-09
#define FLOOR 3.552713678800501e-15
#define ROUND 6755399441055744.0
#define PI 3.141592653589793
#define PI_REST 1.2246467991473532e-16
#define HALF_SINE                                                                                                    \
    1.5707963267948966, -0.6459640975062443, 0.07969262624604301, -0.004681754132340976, 0.0001604411507421909,      \
        -3.5986433529823095e-06, 5.6339337815378516e-08
#define FULL_SINE                                                                                                    \
    1.5707963267948963, -0.6459640975062232, 0.07969262624568337, -0.004681754131447062, 0.0001604411695631063,      \
        -3.5988107063136794e-06, 5.688318064017795e-08, -6.449471237809132e-10
#define HALF_COSINE                                                                                                  \
    1.0, -1.2337005501361513, 0.25366950789986475, -0.02086348073494657, 0.000919259950041661,                       \
        -2.520013526428479e-05, 4.65529618748676e-07
#define LOGARITHM                                                                                                    \
    2.0, 6.66666666666667e-01, 3.9999999999899505e-01, 2.8571428625975487e-01, 2.222221113479508e-01,                \
        1.8182889125261723e-01, 1.5331721600556042e-01, 1.4616449685043406e-01
#define SINE                                                                                                         \
    -0.16666666666666666, 0.008333333333333316, -0.00019841269841254966, 2.7557319219160833e-06,                     \
        -2.505210761669045e-08, 1.6058977292642743e-10, -7.643969663988072e-13, 2.731436876937957e-15
DEVICE u32 low_word(real x) { return __double2loint(x); }
DEVICE real mantissa(u32 high, u32 low) { return __hiloint2double(high >> 12 | 0x3FF00000u, high << 20 | low >> 12); }
DEVICE real split(real x, real *exponent) {
    int high = __double2hiint(x), whole = (high - 0x3FE6A09E) >> 20;
    *exponent = (real)whole;
    return __hiloint2double(high - (whole << 20), __double2loint(x)) - 1.0;
}
#ifdef TUNED
DEVICE real rough_reciprocal(real x) {
    real y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}
DEVICE real reciprocal(real x) { /* error e -> e^3 */
    real y = rough_reciprocal(x), e = 1.0 - x * y;
    return y + y * (e + e * e);
}
DEVICE real root(real x) { /* of a positive number: sqrt(x) = g (1 - e)^(-1/2) */
    real y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    real g = x * y, e = 1.0 - g * y;
    return g + g * (e * (0.5 + 0.375 * e));
}
#endif
#endif

#ifdef TUNED
DEVICE real ratio(real x, real y) { return x * reciprocal(y); }
#else
DEVICE real ratio(real x, real y) { return x / y; }
DEVICE real reciprocal(real x) { return (real)1.0 / x; }
DEVICE real root(real x) { return sqrt(x); }
#endif

template <int terms> DEVICE real horner(const real (&coefficients)[terms], real x) {
    real value = coefficients[terms - 1];
#pragma unroll
    for (int i = terms - 2; i >= 0; i--) value = value * x + coefficients[i];
    return value;
}
#define POLYNOMIAL(list, x) (horner({list}, x))

DEVICE real logarithm(real x) {
    real exponent, f = split(x, &exponent), s = ratio(f, (real)2.0 + f);
    return s * POLYNOMIAL(LOGARITHM, s * s) + exponent * (real)0.6931471805599453;
}

DEVICE real cosine(real x) { /* = +-sin(r) with r = x - (t + 1/2) pi, |r| <= pi/2 */
    real shifted = (x * (real)0.3183098861837907 - (real)0.5) + (real)ROUND;
    real turns = (shifted - (real)ROUND) + (real)0.5;
    real r = (x - turns * (real)PI) - turns * (real)PI_REST, square = r * r;
    real sine = r + r * square * POLYNOMIAL(SINE, square);
    return low_word(shifted) & 1 ? sine : -sine;
}

/* Noise: Philox4x32-10 with the counter (step, block, path, 0), two normal numbers of variance h per block, given
   `scale` = -2h. */
DEVICE void normals(u64 seed, u32 path, u32 step, u32 block, real scale, real *first, real *second) {
    u32 c0 = step, c1 = block, c2 = path, c3 = 0, k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 product0 = (u64)c0 * 0xD2511F53u, product1 = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(product1 >> 32) ^ c1 ^ k0;
        c1 = (u32)product1;
        c2 = (u32)(product0 >> 32) ^ c3 ^ k1;
        c3 = (u32)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const real tiny = sizeof(real) == 8 ? (real)1e-300 : (real)0.0; /* keeps the root of zero finite */
    real radius = root(scale * logarithm((real)2.0 - mantissa(c0, c1)) + tiny);
    real t = mantissa(c2, c3) - (real)1.5;
    bool swap = c3 & 1, minus = c3 & 2;
    if (second) {
        real square = t * t, sine = t * POLYNOMIAL(HALF_SINE, square), cosine = POLYNOMIAL(HALF_COSINE, square);
        cosine = minus ? -cosine : cosine;
        *first = radius * (swap ? sine : cosine);
        *second = radius * (swap ? cosine : sine);
    } else { /* the first only: either t's sine, or that of +-(1 - |t|) */
        real other = (real)1.0 - (t < 0 ? -t : t);
        other = swap ? t : minus ? -other : other;
        *first = radius * other * POLYNOMIAL(FULL_SINE, other * other);
    }
}

DEVICE real dot(const real *a, const real *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
DEVICE real magnitude(real x) { return x < 0 ? -x : x; }

/* Spherical pendulum: L = |v|^2/2 - z, g = |q|^2 - 1, gamma = sin q.

   |u + x q|^2 = 1 as an equation for x: `ready` prepares it and returns Newton's first x, from zero; `newton` returns
   the update, to be subtracted. */

#ifdef TUNED
struct equation {
    real a, b, c; /* of the quadratic a x^2/2 + b x + c */
};

DEVICE real ready(equation &of, const real *u, const real *q) {
    of.a = dot(q, q), of.b = dot(u, q), of.c = (real)0.5 * dot(u, u) - (real)0.5;
    return -of.c * rough_reciprocal(of.b);
}

DEVICE real newton(const equation &of, const real *u, const real *q, real x) {
    return (of.c + x * (of.b + ((real)0.5 * of.a) * x)) * rough_reciprocal(of.b + of.a * x);
}
#else
struct equation {};

DEVICE real ready(equation &, const real *u, const real *q) {
    return ((real)0.5 - (real)0.5 * dot(u, u)) / dot(u, q);
}

DEVICE real newton(const equation &, const real *u, const real *q, real x) {
    real end[3];
    XYZ end[i] = u[i] + x * q[i];
    return ((real)0.5 * dot(end, end) - (real)0.5) / dot(end, q);
}
#endif

extern "C" __global__ void __launch_bounds__(128)
    pendulum_euler_a(long long paths, long long steps, u64 seed, real h, const real *q0, const real *p0, real *q_end,
                     real *p_end) {
    long long path = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (path >= paths) return;
    real q[3], p[3], per_h = (real)1.0 / h;
    XYZ q[i] = q0[i], p[i] = p0[i];
    for (u32 step = 0; step < steps; step++) {
        real dW[3], u[3];
        normals(seed, path, step, 0, (real)-2.0 * h, &dW[0], &dW[1]);
        normals(seed, path, step, 1, (real)-2.0 * h, &dW[2], 0);
        XYZ p[i] = p[i] + cosine(q[i]) * dW[i];
        p[2] = p[2] - h;
        /* q + h (p + 2 lambda q) on the sphere, with x = 2 h lambda */
        XYZ u[i] = q[i] + h * p[i];
        equation of;
        real x = ready(of, u, q), update;
        int iteration = 1;
        do {
            update = newton(of, u, q, x);
            x = x - update;
            update = magnitude(update);
        } while (update > TOLERANCE * magnitude(x) && update > FLOOR && ++iteration < MAX_ITERATIONS);
        XYZ p[i] = p[i] + (x * per_h) * q[i];
        XYZ q[i] = u[i] + x * q[i];
        /* projection */
        real mu = ratio(dot(q, p), dot(q, q));
        XYZ p[i] = p[i] - mu * q[i];
    }
    XYZ q_end[i * paths + path] = q[i], p_end[i * paths + path] = p[i];
}

/* Bead-rod chain with EulerA: see chain.h.  Beads 1 to BEADS between two zeros. */

#define UP _Pragma("unroll") for (int i = 1; i <= BEADS; i++)
#define DOWN _Pragma("unroll") for (int i = BEADS; i >= 1; i--)
#define AXIS _Pragma("unroll") for (int j = 0; j < 3; j++)

struct chain {
    real r[BEADS + 2][3], p[BEADS + 2][3], x[BEADS + 2], y[BEADS + 2], w[BEADS + 2];
    real q[BEADS + 2][3]; /* within a step q + h p; if tuned, not used */
};

DEVICE real own(int i) { return i == 1 ? (real)1.0 : (real)2.0; }

DEVICE void eliminate(chain &at, int i, real lower, real diagonal, real upper, real value) {
    real pivot = reciprocal(diagonal - lower * at.w[i - 1]);
    at.w[i] = upper * pivot;
    at.y[i] = (value - lower * at.y[i - 1]) * pivot;
}

/* Bead i from and to the outside, the beginning and the end of a step, and links: functions as in chain.h. */
#ifdef TUNED
DEVICE void enter(chain &at, int i, const real *q0) {
    AXIS at.r[i][j] = q0[3 * i - 3 + j] - (i > 1 ? q0[3 * i - 6 + j] : (real)0.0);
}

DEVICE void leave(const chain &at, int i, real *place) { AXIS place[j] = place[j] + at.r[i][j]; }

DEVICE void begin_step(chain &, real) {}

DEVICE void link(const chain &at, int i, real h, const real *, real *, real *R) {
    AXIS R[j] = at.r[i][j] + h * (at.p[i][j] - at.p[i - 1][j]) + (own(i) * at.x[i]) * at.r[i][j] -
                at.x[i - 1] * at.r[i - 1][j] - at.x[i + 1] * at.r[i + 1][j];
}

DEVICE void end_step(chain &at, int i, const real *R) { AXIS at.r[i][j] = R[j]; }
#else
DEVICE void enter(chain &at, int i, const real *q0) { AXIS at.q[i][j] = q0[3 * i - 3 + j]; }

DEVICE void leave(const chain &at, int i, real *place) { AXIS place[j] = at.q[i][j]; }

DEVICE void begin_step(chain &at, real h) {
    UP AXIS at.r[i][j] = at.q[i][j] - at.q[i - 1][j];
    UP AXIS at.q[i][j] = at.q[i][j] + h * at.p[i][j];
}

DEVICE void link(const chain &at, int i, real, const real *from, real *to, real *R) {
    AXIS {
        real place = at.q[i][j] + at.x[i] * at.r[i][j] - at.x[i + 1] * at.r[i + 1][j];
        R[j] = place - from[j];
        to[j] = place;
    }
}

DEVICE void end_step(chain &, int, const real *) {}
#endif

extern "C" __global__ void __launch_bounds__(128)
    chain_euler_a(long long paths, long long steps, u64 seed, real h, real sigma, const real *q0, const real *p0,
                  real *q_end, real *p_end) {
    long long path = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (path >= paths) return;
    chain at = {};
    real per_h = (real)1.0 / h, scale = (real)-2.0 * h * sigma * sigma;
    UP enter(at, i, q0);
    UP AXIS at.p[i][j] = p0[3 * i - 3 + j];
    for (u32 step = 0; step < steps; step++) {
        real kick[3 * BEADS + 1];
#pragma unroll
        for (int block = 0; 2 * block < 3 * BEADS; block++)
            normals(seed, path, step, block, scale, &kick[2 * block], &kick[2 * block + 1]);
        UP AXIS at.p[i][j] = at.p[i][j] + kick[3 * i - 3 + j];
        UP at.p[i][2] = at.p[i][2] - h;
        begin_step(at, h);
        UP at.x[i] = 0;
        for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
            real place[3] = {};
            UP {
                real R[3];
                link(at, i, h, place, place, R);
                eliminate(at, i, -dot(R, at.r[i - 1]), own(i) * dot(R, at.r[i]), -dot(R, at.r[i + 1]),
                          (real)0.5 * dot(R, R) - (real)0.5);
            }
            real update = 0, largest = 0, size = 0;
            DOWN {
                update = at.y[i] - at.w[i] * update;
                at.x[i] = at.x[i] - update;
                largest = magnitude(update) > largest ? magnitude(update) : largest;
                size = magnitude(at.x[i]) > size ? magnitude(at.x[i]) : size;
            }
            if (!(largest > TOLERANCE * size && largest > FLOOR)) break;
        }
        real R[BEADS + 2][3] = {};
        UP link(at, i, h, at.q[i - 1], at.q[i], R[i]);
        UP AXIS at.p[i][j] = at.p[i][j] + (at.x[i] * per_h) * at.r[i][j] - (at.x[i + 1] * per_h) * at.r[i + 1][j];
        UP end_step(at, i, R[i]);
        /* projection */
        UP {
            real dp[3];
            AXIS dp[j] = at.p[i][j] - at.p[i - 1][j];
            eliminate(at, i, -dot(R[i], R[i - 1]), own(i) * dot(R[i], R[i]), -dot(R[i], R[i + 1]), dot(R[i], dp));
        }
        real mu = 0;
        DOWN {
            real next = mu;
            mu = at.y[i] - at.w[i] * next;
            AXIS at.p[i][j] = at.p[i][j] - mu * R[i][j] + next * R[i + 1][j];
        }
    }
    real place[3] = {};
    UP {
        leave(at, i, place);
        AXIS q_end[(3 * i - 3 + j) * paths + path] = place[j];
        AXIS p_end[(3 * i - 3 + j) * paths + path] = at.p[i][j];
    }
}
