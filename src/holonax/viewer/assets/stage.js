// What is seen: points, trails, rods, the path that leads as solid bodies, and the manifold.

const WIDTH = 2048; // of the texture of states
const MOST_TRAILS = 240000; // corners
const FATES = 1024;

const THEMES = {
  light: {
    paper: "#fbfaf7", plain: "#33507a", quiet: "#9a9da5", accent: "#c8501e", surface: "#5b6f92", faint: 0.62, body: "#d9d4c8",
    ramp: ["#2c2a6b", "#2f6ea8", "#1f9a8a", "#8fae2b", "#e0a01f"],
    statuses: ["#8a93a3", "#d01c3a", "#a3169a", "#e0218a", "#b3261e", "#7a1fa2", "#c2185b", "#8e0038"],
  },
  dark: {
    paper: "#111318", plain: "#8fb4ea", quiet: "#6d7280", accent: "#ff8a4c", surface: "#9db4dc", faint: 0.55, body: "#c9c4b8",
    ramp: ["#6a64d8", "#4a9be0", "#3fc9b0", "#b9d84e", "#ffd166"],
    statuses: ["#7d8798", "#ff5470", "#d76be0", "#ff6ab0", "#ff7a6b", "#b98af0", "#f26a9b", "#ff4a7d"],
  },
};

function rgb(hex) {
  return new THREE.Vector3(...[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255));
}

class Stage {
  constructor(canvas, scene) {
    this.scene = scene;
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true, powerPreference: "high-performance" });
    this.world = new THREE.Scene();
    this.uniforms = this.shared();
    this.radius = this.measure();
    const count = scene.count;
    this.dot = Math.min(this.radius * (count <= 100 ? 0.024 : count <= 2000 ? 0.014 : 0.009), this.spacing());
    this.sizes = scene.sizes || new Array(scene.each).fill(1);
    this.points = this.addPoints();
    this.trails = this.addTrails();
    this.addRods();
    this.addSurface();
    this.addLead();
    this.world.add(new THREE.HemisphereLight(0xffffff, 0x8a8f9c, 2.6));
    this.sun = new THREE.DirectionalLight(0xffffff, 2.4);
    this.world.add(this.sun);
  }

  shared() {
    const { scene } = this, { points, times, count } = scene, d = scene.dimension;
    const texels = times * count, width = Math.min(WIDTH, texels), height = Math.ceil(texels / width);
    this.codes = new Uint16Array(4 * width * height);
    for (let i = 0; i < texels; i++) for (let axis = 0; axis < d; axis++) this.codes[4 * i + axis] = points.codes[d * i + axis];
    this.states = new THREE.DataTexture(this.codes, width, height, THREE.RGBAIntegerFormat, THREE.UnsignedShortType);
    this.states.internalFormat = "RGBA16UI";
    const rows = Math.ceil(scene.number / FATES), fates = new Float32Array(4 * FATES * rows);
    scene.status.forEach((status, path) => fates.set([status, scene.failed[path] ?? 1e9], 4 * path));
    const fate = new THREE.DataTexture(fates, FATES, rows, THREE.RGBAFormat, THREE.FloatType);
    for (const texture of [this.states, fate]) {
      texture.minFilter = texture.magFilter = THREE.NearestFilter;
      texture.unpackAlignment = 4;
      texture.needsUpdate = true;
    }
    const three = (values) => new THREE.Vector3(values[0], values[1], d === 3 ? values[2] : 0);
    const values = {
      states: this.states, fates: fate, width, count, each: scene.each, last: times - 1, mode: 0, lead: -1, now: 0,
      low: three(points.low), size: three(points.step), ramp: [], statuses: [], plain: null, accent: null, quiet: null,
      screen: new THREE.Vector2(1, 1),
    };
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]));
  }

  // The middle of everything, and how far it reaches from there.
  measure() {
    const { scene } = this, d = scene.dimension, places = [], three = (place) => new THREE.Vector3(...[...place, 0].slice(0, 3));
    const arrays = scene.surface ? [scene.surface.corners, scene.points] : [scene.points];
    for (const array of arrays) {
      const size = array.codes.length / d, skip = Math.max(1, Math.floor(size / 50000));
      for (let i = 0; i < size; i += skip) {
        const place = [0, 1, 2].map((axis) => (axis < d ? array.at(0, i, axis) : 0));
        if (place.every(Number.isFinite)) places.push(three(place));
      }
    }
    places.push(...scene.anchors.map(three));
    let reach = 0;
    if (scene.bodies) {
      const { middles, sizes } = scene.bodies;
      reach = 0.6 * Math.max(...sizes.map((size) => Math.hypot(...size)));
      for (let i = 0; i < middles.codes.length / 3; i += 97) places.push(three([0, 1, 2].map((axis) => middles.at(0, i, axis))));
    }
    const low = new THREE.Vector3(Infinity, Infinity, Infinity), high = low.clone().negate();
    for (const place of places) [low.min(place), high.max(place)];
    this.middle = places.length ? low.add(high).multiplyScalar(0.5) : new THREE.Vector3();
    return places.reduce((far, place) => Math.max(far, place.distanceTo(this.middle)), reach) || 1;
  }

  // Beads should leave something to be seen of the rods between them.
  spacing() {
    const { rods, each } = this.scene;
    const lengths = rods.filter((rod) => Math.max(...rod) < each).map(([a, b]) => this.place(0, a).distanceTo(this.place(0, b)));
    const known = lengths.filter((x) => x > 0).sort((a, b) => a - b);
    return known.length ? 0.2 * known[known.length >> 1] : Infinity;
  }

  material(shader, more = {}, options = {}) {
    return new THREE.ShaderMaterial({
      glslVersion: THREE.GLSL3, vertexShader: shader.vertex, fragmentShader: shader.fragment, transparent: true,
      uniforms: { ...this.uniforms, ...Object.fromEntries(Object.entries(more).map(([name, value]) => [name, { value }])) }, ...options,
    });
  }

  add(object, order) {
    object.frustumCulled = false;
    object.renderOrder = order;
    this.world.add(object);
    return object;
  }

  geometry(attributes, index) {
    const geometry = new THREE.BufferGeometry();
    for (const [name, [values, size]] of Object.entries(attributes)) geometry.setAttribute(name, new THREE.BufferAttribute(values, size));
    if (index) geometry.setIndex(new THREE.BufferAttribute(index, 1));
    return geometry;
  }

  addPoints() {
    const { count, each } = this.scene;
    const id = Float32Array.from({ length: count }, (_, i) => i);
    const radius = Float32Array.from({ length: count }, (_, i) => this.dot * this.sizes[i % each]);
    const geometry = this.geometry({ position: [new Float32Array(3 * count), 3], id: [id, 1], radius: [radius, 1] });
    return this.add(new THREE.Points(geometry, this.material(POINTS, { scale: 1, smallest: 2, others: 1 })), 1);
  }

  addTrails() {
    const { scene } = this, alone = scene.each > 3, number = alone ? scene.each : scene.count;
    const steps = Math.min(48, scene.times - 1, Math.floor(MOST_TRAILS / number / 2) - 1);
    if (steps < 1) return null;
    const id = new Float32Array(number * (steps + 1) * 6), index = new Uint32Array(number * steps * 6);
    for (let point = 0, i = 0, k = 0; point < number; point++) {
      for (let step = 0; step <= steps; step++) {
        const corner = i / 3;
        for (const side of [-1, 1]) for (const x of [point, step / steps, side]) id[i++] = x;
        if (step < steps) for (const x of [0, 1, 2, 2, 1, 3]) index[k++] = corner + x;
      }
    }
    const geometry = this.geometry({ position: [new Float32Array(id.length), 3], id: [id, 3] }, index);
    const strength = alone ? 0.4 : Math.min(0.75, Math.max(0.05, 4 / Math.sqrt(number)));
    const options = { depthWrite: false, side: THREE.DoubleSide };
    const more = { span: 0, strength, thick: 0.8, alone: alone ? 1 : 0 };
    const trails = this.add(new THREE.Mesh(geometry, this.material(TRAILS, more, options)), 2);
    trails.longest = steps;
    return trails;
  }

  segments(list, paint, thick, own, order) {
    const size = list.length, ends = new Float32Array(16 * size), from = new Float32Array(12 * size), to = new Float32Array(12 * size);
    const index = new Uint32Array(6 * size);
    list.forEach(([a, b], i) => {
      const fixed = (end) => (typeof end === "number" ? [0, 0, 0] : [...end, 0].slice(0, 3));
      [[0, -1], [0, 1], [1, -1], [1, 1]].forEach(([end, side], corner) => {
        ends.set([typeof a === "number" ? a : -1, typeof b === "number" ? b : -1, end, side], 16 * i + 4 * corner);
        from.set(fixed(a), 12 * i + 3 * corner);
        to.set(fixed(b), 12 * i + 3 * corner);
      });
      index.set([0, 1, 2, 2, 1, 3].map((x) => 4 * i + x), 6 * i);
    });
    const attributes = { position: [new Float32Array(12 * size), 3], ends: [ends, 4], from: [from, 3], to: [to, 3] };
    const material = this.material(RODS, { paint: new THREE.Vector4(0, 0, 0, 1), thick, own }, { depthWrite: false, side: THREE.DoubleSide });
    material.alpha = paint;
    return this.add(new THREE.Mesh(this.geometry(attributes, index), material), order);
  }

  ends(rod, path) {
    const { each, anchors } = this.scene;
    return rod.map((end) => (end < each ? path * each + end : anchors[end - each]));
  }

  addRods() {
    const { rods, number, each } = this.scene;
    if (!rods.length) return;
    const single = each === 1;
    const list = [];
    const most = Math.max(1, Math.floor(60000 / rods.length));
    for (let path = 0; path < (single ? Math.min(number, 1) : Math.min(number, most)); path++) for (const rod of rods) list.push(this.ends(rod, path));
    if (!single || number === 1) this.rods = this.segments(list, Math.min(0.8, 2.5 / Math.sqrt(number)), 0.8, 0, 2);
  }

  addSurface() {
    const { surface, dimension } = this.scene;
    if (!surface) return;
    const { corners, cells } = surface, size = corners.shape[1];
    const places = Array.from({ length: size }, (_, i) => [0, 1, 2].map((axis) => (axis < dimension ? corners.at(0, i, axis) : 0)));
    if (dimension === 2) {
      const list = Array.from({ length: cells.length / 2 }, (_, i) => [places[cells[2 * i]], places[cells[2 * i + 1]]]);
      this.curve = this.segments(list, 0.55, 0.9, 1, 0);
      return;
    }
    const geometry = this.geometry({ position: [new Float32Array(places.flat()), 3] }, Uint32Array.from(cells));
    geometry.computeVertexNormals();
    const spacing = 10 ** Math.floor(Math.log10(this.radius)) * 0.25;
    const fits = [1, 2, 4].map((x) => x * spacing).find((x) => this.radius / x < 9) || spacing;
    const more = { paint: new THREE.Vector3(), spacing: fits, faint: 1 };
    this.surface = this.add(new THREE.Mesh(geometry, this.material(SURFACE, more, { depthWrite: false, side: THREE.DoubleSide })), 3);
  }

  addLead() {
    const { scene } = this;
    const solid = () => new THREE.MeshStandardMaterial({ roughness: 0.55, metalness: 0.05 });
    const many = (geometry, number) => {
      const mesh = this.add(new THREE.InstancedMesh(geometry, solid(), number), 1);
      mesh.visible = false;
      return mesh;
    };
    this.beads = many(new THREE.SphereGeometry(1, 20, 14), scene.each);
    if (scene.rods.length) this.bars = many(new THREE.CylinderGeometry(1, 1, 1, 12), scene.rods.length);
    if (scene.bodies) {
      this.boxes = many(new THREE.BoxGeometry(1, 1, 1), scene.bodies.sizes.length);
      this.arms = many(new THREE.CylinderGeometry(1, 1, 1, 12), 3 * scene.bodies.sizes.length);
    }
  }

  place(time, point) {
    const { points, dimension } = this.scene;
    return new THREE.Vector3(between(points, time, point, 0), between(points, time, point, 1), dimension === 3 ? between(points, time, point, 2) : 0);
  }

  // The path that leads, as solid bodies.
  pose(time, path) {
    const { scene, beads, bars, boxes, arms } = this, shown = path >= 0;
    for (const mesh of [beads, bars, boxes, arms]) if (mesh) mesh.visible = shown;
    if (!shown) return;
    const matrix = new THREE.Matrix4(), turn = new THREE.Quaternion(), y = new THREE.Vector3(0, 1, 0);
    const put = (mesh, i, place, rotation, x, length, z) => mesh.setMatrixAt(i, matrix.compose(place, rotation, new THREE.Vector3(x, length, z)));
    const bar = (mesh, i, a, b, thick) => {
      const along = b.clone().sub(a), length = along.length();
      turn.setFromUnitVectors(y, length > 0 ? along.divideScalar(length) : y);
      put(mesh, i, a.clone().add(b).multiplyScalar(0.5), turn, thick, length, thick);
    };
    const hidden = (x) => !Number.isFinite(x.x + x.y + x.z);
    const places = this.sizes.map((_, i) => this.place(time, path * scene.each + i));
    this.sizes.forEach((size, i) => {
      const away = hidden(places[i]), r = away ? 0 : 1.35 * this.dot * size;
      put(beads, i, away ? this.middle : places[i], turn.identity(), r, r, r);
    });
    scene.rods.forEach((rod, i) => {
      const [a, b] = rod.map((end) => (end < scene.each ? places[end] : new THREE.Vector3(...[...scene.anchors[end - scene.each], 0].slice(0, 3))));
      bar(bars, i, hidden(a) || hidden(b) ? this.middle : a, hidden(a) || hidden(b) ? this.middle : b, 0.4 * this.dot);
    });
    (scene.bodies ? scene.bodies.sizes : []).forEach((size, i) => {
      const { turns, middles } = scene.bodies, at = path * scene.bodies.sizes.length + i;
      const entry = (k) => between(turns, time, at, k);
      const columns = [0, 1, 2].map((k) => new THREE.Vector3(entry(k), entry(3 + k), entry(6 + k)));
      columns[0].normalize();
      columns[1].addScaledVector(columns[0], -columns[1].dot(columns[0])).normalize();
      const mirrored = columns[2].dot(columns[0].clone().cross(columns[1])) < 0 ? -1 : 1;
      columns[2].crossVectors(columns[0], columns[1]).multiplyScalar(mirrored);
      const middle = new THREE.Vector3(...[0, 1, 2].map((axis) => between(middles, time, at, axis)));
      matrix.makeBasis(...columns).scale(new THREE.Vector3(...size)).setPosition(middle);
      boxes.setMatrixAt(i, matrix);
      columns.forEach((column, k) => bar(arms, 3 * i + k, middle, middle.clone().addScaledVector(column, 0.5 * size[k] + 0.25 * Math.max(...size)), 0.012 * Math.max(...size)));
    });
    for (const mesh of [beads, bars, boxes, arms]) if (mesh) mesh.instanceMatrix.needsUpdate = true;
  }

  // The colour of every state: a quantity over its range, 1; statuses, 2; or one colour, 0.
  colour(mode, quantity) {
    this.uniforms.mode.value = mode;
    if (mode !== 1) return;
    const { scene, codes } = this, { times, number, each, points, dimension } = scene;
    const { low, high } = quantity.range, [array, axis] = quantity.array ? [quantity.array, 0] : [points, quantity.axis];
    const shift = (low - array.low[axis]) / array.step[axis], gain = high > low ? (array.step[axis] * (MISSING - 1)) / (high - low) : 0;
    for (let time = 0, i = 3; time < times; time++) {
      for (let path = 0; path < number; path++) {
        const code = quantity.array
          ? quantity.array.codes[time * number + path]
          : points.codes[((time * number + path) * each + quantity.point) * dimension + quantity.axis];
        const shown = code === MISSING ? MISSING : Math.min(MISSING - 1, Math.max(0, (code - shift) * gain));
        for (let point = 0; point < each; point++, i += 4) codes[i] = shown;
      }
    }
    this.states.needsUpdate = true;
  }

  theme(name) {
    const theme = THEMES[name], { uniforms } = this;
    this.renderer.setClearColor(theme.paper, 1);
    for (const key of ["plain", "quiet", "accent"]) uniforms[key].value = rgb(theme[key]);
    uniforms.ramp.value = theme.ramp.map(rgb);
    uniforms.statuses.value = theme.statuses.map(rgb);
    if (this.surface) {
      this.surface.material.uniforms.paint.value = rgb(theme.surface);
      this.surface.material.uniforms.faint.value = theme.faint;
    }
    for (const [mesh, colour] of [[this.rods, theme.plain], [this.curve, theme.surface]]) {
      if (mesh) mesh.material.uniforms.paint.value = new THREE.Vector4(...rgb(colour).toArray(), mesh.material.alpha);
    }
    for (const mesh of [this.beads, this.arms]) if (mesh) mesh.material.color.set(theme.accent);
    for (const mesh of [this.bars, this.boxes]) if (mesh) mesh.material.color.set(theme.body);
  }

  resize(width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.uniforms.screen.value.set(width, height);
    this.pixels = height * ratio;
  }

  // `solid` is the path drawn as solid bodies, `lead` the one that stands out, -1 for none.
  render(camera, time, lead, solid, dimmed) {
    this.uniforms.now.value = time;
    this.uniforms.lead.value = lead;
    const { uniforms } = this.points.material;
    uniforms.scale.value = this.pixels / Math.tan((camera.fov * Math.PI) / 360);
    uniforms.smallest.value = 2 * (this.pixels / this.uniforms.screen.value.y);
    uniforms.others.value = dimmed;
    const [right, up] = [0, 1].map((axis) => new THREE.Vector3().setFromMatrixColumn(camera.matrixWorld, axis));
    this.sun.position.copy(camera.position).addScaledVector(right, -3 * this.radius).addScaledVector(up, 3 * this.radius);
    this.pose(time, solid);
    this.renderer.render(this.world, camera);
  }
}
