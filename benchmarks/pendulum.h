/* Spherical pendulum: L = |v|^2/2 - z, g = |q|^2 - 1, gamma = sin q; EulerA, Rattle, Kicked("symmetric"). */

typedef struct {
    vu path;
    vd q[3], p[3], cos_q[3];
} pendulum;

/* |u + x q|^2 = 1 as an equation for x: `ready` prepares it and returns Newton's first x, from zero; `newton` returns
   the update, to be subtracted. */
#ifdef TUNED
typedef struct {
    vd a, b, c; /* of the quadratic a x^2/2 + b x + c */
} equation;

INLINE vd ready(equation *of, const vd *u, const vd *q) {
    of->a = dot(q, q), of->b = dot(u, q), of->c = 0.5 * dot(u, u) - 0.5;
    return -of->c / of->b;
}

INLINE vd newton(const equation *of, const vd *u, const vd *q, vd x) {
    return (of->c + x * (of->b + (0.5 * of->a) * x)) / (of->b + of->a * x);
}
#else
typedef struct {
} equation;

INLINE vd ready(equation *of, const vd *u, const vd *q) { return (0.5 - 0.5 * dot(u, u)) / dot(u, q); }

INLINE vd newton(const equation *of, const vd *u, const vd *q, vd x) {
    vd end[3];
    XYZ end[i] = u[i] + x * q[i];
    return (0.5 * dot(end, end) - 0.5) / dot(end, q);
}
#endif

/* q + h (p + 2 lambda q) on the sphere, with x = 2 h lambda. */
INLINE void move(pendulum *at, double h) {
    vd u[VECTORS][3], x[VECTORS];
    equation of[VECTORS];
    mask active[VECTORS], unfinished = EVERY_LANE;
    GROUP {
        XYZ u[k][i] = at[k].q[i] + h * at[k].p[i];
        x[k] = ready(&of[k], u[k], at[k].q);
        active[k] = above(magnitude(x[k]), all(FLOOR));
    }
    for (int iteration = 1; any(unfinished) && iteration < MAX_ITERATIONS; iteration++) {
        unfinished = NO_LANE;
        GROUP {
            vd update = kept(active[k], newton(&of[k], u[k], at[k].q, x[k]));
            x[k] = x[k] - update;
            update = magnitude(update);
            active[k] = above(update, TOLERANCE * magnitude(x[k])) & above(update, all(FLOOR));
            unfinished |= active[k];
        }
    }
    GROUP {
        XYZ at[k].p[i] = at[k].p[i] + (x[k] * (1.0 / h)) * at[k].q[i];
        XYZ at[k].q[i] = u[k][i] + x[k] * at[k].q[i];
    }
}

INLINE void project(pendulum *at) {
    vd mu[VECTORS];
    GROUP mu[k] = dot(at[k].q, at[k].p) / dot(at[k].q, at[k].q);
    GROUP XYZ at[k].p[i] = at[k].p[i] - mu[k] * at[k].q[i];
}

INLINE void kick(pendulum *at, const vd *weight, double fall) {
    XYZ at->p[i] = at->p[i] + at->cos_q[i] * weight[i];
    at->p[2] = at->p[2] - fall;
}

/* cos(q) at the beginning of a step: known from the end of the last one, or computed again. */
INLINE void begin(pendulum *at) {
#ifndef TUNED
    cosine(3, at->q, at->cos_q);
#endif
}

INLINE void euler_a(pendulum *at, const schedule *keys, long step, double h) {
    GROUP {
        vd dW[4];
        normals(keys, at[k].path, step, 0, 3, all(-2.0 * h), dW);
        cosine(3, at[k].q, at[k].cos_q);
        kick(&at[k], dW, h);
    }
    move(at, h);
    project(at);
}

INLINE void rattle(pendulum *at, const schedule *keys, long step, double h) {
    vd half_dW[VECTORS][4];
    GROUP {
        normals(keys, at[k].path, step, 0, 3, all(-0.5 * h), half_dW[k]); /* of variance h/4 */
        begin(&at[k]);
        kick(&at[k], half_dW[k], 0.5 * h);
    }
    move(at, h);
    GROUP {
        cosine(3, at[k].q, at[k].cos_q);
        kick(&at[k], half_dW[k], 0.5 * h);
    }
    project(at);
}

INLINE void kicked(pendulum *at, const schedule *keys, long step, double h) {
    const double nu = 0.09175170953613698, levy = 0.28867513459481287; /* (1 - sqrt(2/3))/2 and sqrt(1/12) */
    vd dW[VECTORS][6], weight[3];
    GROUP {
        vd *H = dW[k] + 3;
        normals(keys, at[k].path, step, 0, 6, all(-2.0 * h), dW[k]);
        XYZ H[i] = levy * H[i];
        XYZ weight[i] = nu * dW[k][i] + H[i];
        begin(&at[k]);
        kick(&at[k], weight, 0.25 * h);
    }
    move(at, 0.5 * h);
    GROUP {
        cosine(3, at[k].q, at[k].cos_q);
        XYZ weight[i] = (1.0 - 2.0 * nu) * dW[k][i];
        kick(&at[k], weight, 0.5 * h);
    }
    move(at, 0.5 * h);
    GROUP {
        vd *H = dW[k] + 3;
        cosine(3, at[k].q, at[k].cos_q);
        XYZ weight[i] = nu * dW[k][i] - H[i];
        kick(&at[k], weight, 0.25 * h);
    }
    project(at);
}

typedef void step_of_pendulum(pendulum *, const schedule *, long, double);

INLINE void run_pendulum(step_of_pendulum *advance, long first, long paths, long steps, uint64_t seed, double h,
                         const double *q0, const double *p0, double *q, double *p) {
    schedule keys = round_keys(seed);
    for (long begin = 0; begin < paths; begin += LANES * VECTORS) {
        pendulum at[VECTORS];
        GROUP {
            at[k].path = consecutive(first + begin + k * LANES);
            XYZ at[k].q[i] = all(q0[i]);
            XYZ at[k].p[i] = all(p0[i]);
            cosine(3, at[k].q, at[k].cos_q);
        }
        for (long step = 0; step < steps; step++) advance(at, &keys, step, h);
        GROUP for (int i = 0; i < 3; i++) {
            store(at[k].q[i], q + i * paths, begin + k * LANES, paths);
            store(at[k].p[i], p + i * paths, begin + k * LANES, paths);
        }
    }
}

#define PENDULUM(name)                                                                                               \
    void pendulum_##name(long first, long paths, long steps, uint64_t seed, double h, const double *q0,              \
                         const double *p0, double *q, double *p) {                                                   \
        run_pendulum(name, first, paths, steps, seed, h, q0, p0, q, p);                                              \
    }
PENDULUM(euler_a)
PENDULUM(rattle)
PENDULUM(kicked)
