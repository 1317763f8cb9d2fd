/* Bead-rod chain: unit masses and rods, |q_i - q_{i-1}|^2 = 1 with q_0 = 0, gravity, gamma = sigma q; EulerA.

   With the links r_i = q_i - q_{i-1}, x = 2 h lambda and u = q + h p, bead i is at u_i + x_i r_i - x_{i+1} r_{i+1} at
   the end of the step, and |R_i|^2 = 1 for the links R of these positions is solved for x: tridiagonal.

   Neither the force nor the noise depends on q, so the tuned program keeps the links and not the positions, and gets
   R_i = U_i + 2 x_i r_i - x_{i-1} r_{i-1} - x_{i+1} r_{i+1} from the links U of u (where x_1 counts once). */

_Static_assert(BEADS % 2 == 0, "noise is drawn for two beads at a time");

typedef struct {
    vu path;
    vd r[BEADS + 2][3], p[BEADS + 2][3];         /* beads 1 to BEADS; the neighbours of the ends are zero */
    vd q[BEADS + 2][3], R[BEADS + 2][3];         /* q: within a step u, and if tuned U */
    vd x[BEADS + 2], y[BEADS + 2], w[BEADS + 2]; /* y, w: what elimination leaves for the back substitution */
} chain;

#define UP _Pragma("GCC unroll 8") for (int i = 1; i <= BEADS; i++)
#define DOWN _Pragma("GCC unroll 8") for (int i = BEADS; i >= 1; i--)
#define AXIS EACH(j, 3)

INLINE double own(int i) { return i == 1 ? 1.0 : 2.0; } /* how many ends of a rod move when it pushes */

/* Bead i from and to the outside, `place` being that of bead i - 1 and then of bead i; the beginning and the end of a
   step; links without the impulses x; links with them, `from` being the place of bead i - 1 and `to` that of bead i. */
#ifdef TUNED
INLINE void enter(chain *at, int i, const double *q0) {
    AXIS at->r[i][j] = all(q0[3 * i - 3 + j] - (i > 1 ? q0[3 * i - 6 + j] : 0.0));
}

INLINE void leave(const chain *at, int i, vd *place) { AXIS place[j] = place[j] + at->r[i][j]; }

INLINE void begin_step(chain *at) {}

INLINE void end_step(chain *at, int i) { AXIS at->r[i][j] = at->R[i][j]; }

INLINE void free_link(chain *at, int i, double h, vd *R) {
    AXIS R[j] = at->q[i][j] = at->r[i][j] + h * (at->p[i][j] - at->p[i - 1][j]);
}

INLINE void link(const chain *at, int i, const vd *from, vd *to, vd *R) {
    AXIS R[j] = at->q[i][j] + (own(i) * at->x[i]) * at->r[i][j] - at->x[i - 1] * at->r[i - 1][j] -
                at->x[i + 1] * at->r[i + 1][j];
}
#else
INLINE void enter(chain *at, int i, const double *q0) { AXIS at->q[i][j] = all(q0[3 * i - 3 + j]); }

INLINE void leave(const chain *at, int i, vd *place) { AXIS place[j] = at->q[i][j]; }

INLINE void begin_step(chain *at) { UP AXIS at->r[i][j] = at->q[i][j] - at->q[i - 1][j]; }

INLINE void end_step(chain *at, int i) {}

INLINE void free_link(chain *at, int i, double h, vd *R) {
    AXIS at->q[i][j] = at->q[i][j] + h * at->p[i][j];
    AXIS R[j] = at->q[i][j] - at->q[i - 1][j];
}

INLINE void link(const chain *at, int i, const vd *from, vd *to, vd *R) {
    AXIS {
        vd place = at->q[i][j] + at->x[i] * at->r[i][j] - at->x[i + 1] * at->r[i + 1][j];
        R[j] = place - from[j];
        to[j] = place;
    }
}
#endif

INLINE void eliminate(chain *at, int i, vd lower, vd diagonal, vd upper, vd value) {
    vd pivot = 1.0 / (diagonal - lower * at->w[i - 1]);
    at->w[i] = upper * pivot;
    at->y[i] = (value - lower * at->y[i - 1]) * pivot;
}

INLINE void linearize(chain *at, int i, const vd *R) {
    eliminate(at, i, -dot(R, at->r[i - 1]), own(i) * dot(R, at->r[i]), -dot(R, at->r[i + 1]), 0.5 * dot(R, R) - 0.5);
}

/* From y and w to the update of x; returns the lanes that are not done. */
INLINE mask substitute(chain *at, mask active) {
    vd update = all(0.0), largest = all(0.0), size = all(0.0);
    DOWN {
        update = at->y[i] - at->w[i] * update;
        at->x[i] = at->x[i] - kept(active, update);
        largest = larger(largest, magnitude(update));
        size = larger(size, magnitude(at->x[i]));
    }
    return active & above(largest, TOLERANCE * size) & above(largest, all(FLOOR));
}

INLINE void chain_step(chain *at, const schedule *keys, long step, double h, double sigma) {
    GROUP {
        begin_step(&at[k]);
        for (int i = 1; i <= BEADS; i += 2) {
            vd kick[6];
            normals(keys, at[k].path, step, 3 * (i / 2), 6, all(-2.0 * h * sigma * sigma), kick);
            AXIS at[k].p[i][j] = at[k].p[i][j] + kick[j];
            AXIS at[k].p[i + 1][j] = at[k].p[i + 1][j] + kick[3 + j];
            at[k].p[i][2] = at[k].p[i][2] - h;
            at[k].p[i + 1][2] = at[k].p[i + 1][2] - h;
        }
    }
    UP GROUP {
        vd R[3];
        free_link(&at[k], i, h, R);
        at[k].x[i] = all(0.0);
        linearize(&at[k], i, R);
    }
    mask active[VECTORS], unfinished = NO_LANE;
    GROUP unfinished |= active[k] = substitute(&at[k], EVERY_LANE);
    for (int iteration = 1; any(unfinished) && iteration < MAX_ITERATIONS; iteration++) {
        vd place[VECTORS][3];
        GROUP AXIS place[k][j] = all(0.0);
        unfinished = NO_LANE;
        UP GROUP {
            vd R[3];
            link(&at[k], i, place[k], place[k], R);
            linearize(&at[k], i, R);
        }
        GROUP unfinished |= active[k] = substitute(&at[k], active[k]);
    }
    /* The end of the step, and elimination for the projection. */
    vd before[VECTORS][3];
    GROUP AXIS before[k][j] = all(0.0);
    GROUP link(&at[k], 1, at[k].q[0], at[k].q[1], at[k].R[1]);
    UP GROUP {
        vd *R = at[k].R[i], push = at[k].x[i] * (1.0 / h), pull = at[k].x[i + 1] * (1.0 / h), p[3], dp[3];
        if (i < BEADS) link(&at[k], i + 1, at[k].q[i], at[k].q[i + 1], at[k].R[i + 1]);
        AXIS p[j] = at[k].p[i][j] + push * at[k].r[i][j] - pull * at[k].r[i + 1][j];
        AXIS dp[j] = p[j] - before[k][j];
        AXIS at[k].p[i][j] = before[k][j] = p[j];
        eliminate(&at[k], i, -dot(R, at[k].R[i - 1]), own(i) * dot(R, R), -dot(R, at[k].R[i + 1]), dot(R, dp));
    }
    vd mu[VECTORS];
    GROUP mu[k] = all(0.0);
    DOWN GROUP {
        vd next = mu[k], *R = at[k].R[i];
        mu[k] = at[k].y[i] - at[k].w[i] * next;
        AXIS at[k].p[i][j] = at[k].p[i][j] - mu[k] * R[j] + next * at[k].R[i + 1][j];
        end_step(&at[k], i);
    }
}

void chain_euler_a(long first, long paths, long steps, uint64_t seed, double h, double sigma, const double *q0,
                   const double *p0, double *q, double *p) {
    schedule keys = round_keys(seed);
    for (long begin = 0; begin < paths; begin += LANES * VECTORS) {
        chain at[VECTORS] = {0};
        GROUP {
            at[k].path = consecutive(first + begin + k * LANES);
            UP enter(&at[k], i, q0);
            UP AXIS at[k].p[i][j] = all(p0[3 * i - 3 + j]);
        }
        for (long step = 0; step < steps; step++) chain_step(at, &keys, step, h, sigma);
        GROUP {
            vd place[3] = {0};
            for (int i = 1; i <= BEADS; i++) {
                leave(&at[k], i, place);
                for (int j = 0; j < 3; j++) {
                    long line = (3 * i - 3 + j) * paths;
                    store(place[j], q + line, begin + k * LANES, paths);
                    store(at[k].p[i][j], p + line, begin + k * LANES, paths);
                }
            }
        }
    }
}
