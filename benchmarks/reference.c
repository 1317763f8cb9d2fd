/* The methods of holonax written by hand for one system each: what a careful programmer gets from one core.

   Eight paths per vector, VECTORS vectors side by side (so that latencies overlap), the whole time loop in registers
   and first-level cache, noise drawn in the loop.  The unknowns are reduced to the multipliers: Newton stops when the
   update is below 0.1 sqrt(eps) relative in every lane, and lanes that are done keep their value.  Nothing watches over
   failures, which holonax does.

   Every function takes `paths` paths from number `first` on, all starting at (q0, p0), and leaves their end states in
   q and p, arrays of shape (n, paths).  With -DBEADS=... the chain of that many beads is compiled, otherwise the
   pendulum.

   Without -DTUNED these are the method's equations in its own variables: the state is (q, p), every iteration evaluates
   the positions, the constraint and its derivative, every step begins anew.  With it, what only a look at the system
   shows is used as well: the pendulum's equation for the multiplier is a quadratic with three coefficients, cos(q) at
   the end of a step is that at the beginning of the next, and the chain's positions are not needed, only its links. */

#ifndef VECTORS
#define VECTORS 4
#endif

#include "lanes.h"

static const double TOLERANCE = 0x1.999999999999ap-30; /* 0.1 sqrt(eps) */
static const double FLOOR = 0x1p-48;                   /* 16 eps: updates of q below this are round-off */
enum { MAX_ITERATIONS = 25 };

#define GROUP EACH(k, VECTORS)
#define XYZ EACH(i, 3)

INLINE vd dot(const vd *a, const vd *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

INLINE void store(vd value, double *line, long begin, long paths) {
    for (int lane = 0; lane < LANES && begin + lane < paths; lane++) line[begin + lane] = value[lane];
}

#ifdef BEADS
#include "chain.h"
#else
#include "pendulum.h"
#endif
