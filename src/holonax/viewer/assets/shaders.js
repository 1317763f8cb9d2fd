// All states are in one texture, (x, y, z, colour) at [time][path][point]; shaders fetch what they need at any time.

const STATES = `
precision highp float; precision highp int; precision highp usampler2D; precision highp sampler2D;
uniform usampler2D states;
uniform sampler2D fates;                       // of paths: status, and the time from which on it holds
uniform int width, count, each, last, mode, lead;
uniform float now;
uniform vec3 low, size;
uniform vec3 ramp[5], statuses[8], plain, accent, quiet;
uniform vec2 screen;

uvec4 code(int time, int point) {
  int i = time * count + point;
  return texelFetch(states, ivec2(i % width, i / width), 0);
}
bool state(float time, int point, out vec3 place, out float value) {
  float t = clamp(time, 0.0, float(last));
  int before = int(t), after = min(before + 1, last);
  uvec4 a = code(before, point), b = code(after, point);
  float share = t - float(before);
  place = low + size * mix(vec3(a.xyz), vec3(b.xyz), share);
  value = a.w == 65535u || b.w == 65535u ? -1.0 : mix(float(a.w), float(b.w), share) / 65534.0;
  return a.x != 65535u && a.y != 65535u && a.z != 65535u && b.x != 65535u && b.y != 65535u && b.z != 65535u;
}
vec3 colour(int path, float time, float value) {
  vec2 fate = texelFetch(fates, ivec2(path % 1024, path / 1024), 0).xy;
  int status = time >= fate.y ? int(fate.x) : 0;
  if (status > 0 || mode == 2) return statuses[status];
  if (path == lead && mode == 0) return accent;
  if (mode == 0) return plain;
  if (value < 0.0) return quiet;
  float r = value * 4.0; int i = min(int(r), 3);
  return mix(ramp[i], ramp[i + 1], r - float(i));
}
vec4 away() { return vec4(2.0, 2.0, 2.0, 1.0); }
vec2 aside(vec4 a, vec4 b) {                   // across the line from a to b, one pixel long, in clip space
  vec2 d = (b.xy / b.w - a.xy / a.w) * screen;
  d = dot(d, d) > 1e-12 ? normalize(d) : vec2(1.0, 0.0);
  return 2.0 * vec2(-d.y, d.x) / screen;
}
`;

const POINTS = {
  vertex: `${STATES}
in float id; in float radius;
uniform float scale, smallest, others;
out vec4 tint;
void main() {
  int point = int(id), path = point / each; vec3 x; float value;
  if (!state(now, point, x, value)) { gl_Position = away(); return; }
  vec4 seen = modelViewMatrix * vec4(x, 1.0);
  gl_Position = projectionMatrix * seen;
  gl_PointSize = max(smallest, scale * radius * (path == lead ? 1.5 : 1.0) / -seen.z);
  tint = vec4(colour(path, now, value), path == lead ? 1.0 : others);
}`,
  fragment: `precision highp float;
in vec4 tint; out vec4 result;
void main() {
  vec2 p = 2.0 * gl_PointCoord - 1.0; float r = dot(p, p);
  if (r > 1.0) discard;
  float light = 0.82 + 0.26 * dot(vec3(p.x, -p.y, sqrt(1.0 - r)), vec3(-0.4, 0.65, 0.64));
  float edge = fwidth(r);
  result = vec4(tint.rgb * light, tint.a * (1.0 - smoothstep(1.0 - edge, 1.0, r) * 0.6));
}`,
};

const LINE = `precision highp float;
in vec4 tint; out vec4 result;
void main() { if (tint.a < 0.004) discard; result = tint; }`;

const TRAILS = {
  vertex: `${STATES}
in vec3 id;                                    // point, age from 0 to 1, side
uniform float span, strength, thick, alone;    // alone: only those of the path that leads
out vec4 tint;
void main() {
  int point = int(id.x) + (alone > 0.5 ? max(lead, 0) * each : 0), path = point / each;
  vec3 x, y; float value, next;
  float time = now - id.y * span;
  bool known = state(max(time, 0.0), point, x, value) && state(max(time, 0.0) - 0.5, point, y, next);
  known = known && !(alone > 0.5 && lead < 0);
  vec4 a = projectionMatrix * modelViewMatrix * vec4(x, 1.0), b = projectionMatrix * modelViewMatrix * vec4(y, 1.0);
  float own = path == lead ? 2.0 : 1.0;
  a.xy += aside(a, b) * id.z * thick * own * (1.0 - 0.6 * id.y) * a.w;
  gl_Position = known ? a : away();
  float fade = strength * (1.0 - id.y) * (path == lead ? 1.6 : 1.0);
  tint = vec4(path == lead ? accent : colour(path, time, value), min(fade, 0.95));
}`,
  fragment: LINE,
};

const RODS = {
  vertex: `${STATES}
in vec4 ends;                                  // points a and b (negative: fixed), which end this is, side
in vec3 from, to;
uniform vec4 paint; uniform float thick, own;  // own: fixed colour
out vec4 tint;
void main() {
  vec3 x = from, y = to; float value, unused; bool known = true;
  int path = -1;
  if (ends.x >= 0.0) { known = state(now, int(ends.x), x, value); path = int(ends.x) / each; }
  if (ends.y >= 0.0) known = state(now, int(ends.y), y, unused) && known;
  vec4 a = projectionMatrix * modelViewMatrix * vec4(x, 1.0), b = projectionMatrix * modelViewMatrix * vec4(y, 1.0);
  vec4 here = ends.z < 0.5 ? a : b;
  here.xy += aside(a, b) * ends.w * thick * here.w;
  gl_Position = known ? here : away();
  tint = own > 0.5 || path < 0 ? paint : vec4(colour(path, now, value), path == lead ? 1.0 : paint.a);
}`,
  fragment: LINE,
};

const SURFACE = {
  vertex: `precision highp float;
out vec3 place, across, seen;
void main() {
  vec4 p = modelViewMatrix * vec4(position, 1.0);
  place = position; across = normalMatrix * normal; seen = -p.xyz;
  gl_Position = projectionMatrix * p;
}`,
  fragment: `precision highp float;
in vec3 place, across, seen; out vec4 result;
uniform vec3 paint; uniform float spacing, faint;
void main() {
  vec3 normal = dot(across, across) > 1e-8 ? across : cross(dFdx(seen), dFdy(seen));  // tiny triangles have none
  float facing = abs(dot(normalize(normal), normalize(seen)));
  float rim = pow(1.0 - facing, 2.2);
  float level = place.z / spacing, near = abs(fract(level - 0.5) - 0.5) / max(fwidth(level), 1e-6);
  float line = (1.0 - smoothstep(0.5, 1.4, near)) * smoothstep(0.02, 0.3, facing);
  result = vec4(paint, faint * (0.16 + 0.6 * rim + 0.30 * line));
}`,
};
