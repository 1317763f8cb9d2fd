// The page: time, controls, keys, picking.

const $ = (id) => document.getElementById(id);
const SPEEDS = [0.125, 0.25, 0.5, 1, 2, 4, 8];
const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const night = window.matchMedia("(prefers-color-scheme: dark)");

class Player {
  constructor(scene, stage) {
    Object.assign(this, { scene, stage, time: 0, playing: false, speed: 3, picked: -1, point: 0, waiting: 0, drawn: 0 });
    this.orbit = new Orbit($("view"), scene.dimension, () => this.refresh());
    this.orbit.fit(stage.middle, stage.radius);
    this.plot = new Plot($("plot"), scene, (time) => this.seek(time));
    this.rate = Math.min(60, Math.max(4, (scene.times - 1) / 10)); // times a second
    this.words();
    this.choices();
    this.listen();
    this.shade(night.matches ? "dark" : "light");
    new ResizeObserver(() => this.resize()).observe($("stage"));
    this.resize();
    if (!calm && scene.times > 1) this.play(true);
    document.documentElement.dataset.ready = "yes";
  }

  words() {
    const { scene, stage } = this;
    $("title").textContent = scene.title;
    $("facts").textContent = scene.facts.join("  ·  ");
    for (const note of scene.notes) $("notes").append(Object.assign(document.createElement("li"), { textContent: note }));
    $("scrub").max = scene.times - 1;
    for (const id of ["play", "scrub", "speed"]) $(id).disabled = scene.times < 2;
    if (scene.dimension === 2) $("dragged").textContent = "move";
    $("tail").hidden = !stage.trails;
    if (stage.trails) {
      $("trail").max = stage.trails.longest;
      $("trail").value = Math.min(scene.trails, stage.trails.longest);
      stage.trails.material.uniforms.span.value = +$("trail").value;
    }
  }

  choices() {
    const { scene } = this, option = (text, value) => Object.assign(document.createElement("option"), { textContent: text, value });
    scene.quantities.forEach((quantity, i) => {
      $("quantity").append(option(quantity.name, i));
      $("colour").append(option(quantity.name, i));
    });
    $("colour").append(option("status", "status"), option("none", "none"));
    $("series").hidden = !scene.quantities.length;
    $("colour").value = scene.number > 1 && scene.quantities.length ? 0 : "none";
    this.recolour();
  }

  get quantity() {
    return this.scene.quantities[$("quantity").value];
  }

  // The path drawn as solid bodies: the one that was picked; without it, of points that belong together, the first.
  get solid() {
    const { scene, picked } = this;
    return picked >= 0 ? picked : scene.each > 1 || scene.bodies || scene.number === 1 ? 0 : -1;
  }

  recolour() {
    const choice = $("colour").value, quantity = this.scene.quantities[choice];
    this.stage.colour(choice === "none" ? 0 : choice === "status" ? 2 : 1, quantity);
    this.legend();
    this.refresh();
  }

  legend() {
    const box = $("legend"), choice = $("colour").value, theme = THEMES[this.themed || "light"], { scene } = this;
    box.replaceChildren();
    const word = (text, colour) => {
      const mark = Object.assign(document.createElement(colour ? "b" : "span"), { textContent: text });
      if (colour) mark.style.setProperty("--dot", colour);
      box.append(mark);
    };
    if (choice === "status" || (choice === "none" && scene.status.some((x) => x > 0))) {
      for (const [code, name] of Object.entries(scene.statuses)) word(name.toLowerCase().replaceAll("_", " "), theme.statuses[code]);
    } else if (choice !== "none") {
      const { low, high } = this.scene.quantities[choice].range, bar = document.createElement("i");
      bar.style.background = `linear-gradient(90deg, ${theme.ramp.join(",")})`;
      word(short(low));
      box.append(bar);
      word(short(high));
    }
  }

  shade(name) {
    this.themed = name;
    document.documentElement.dataset.theme = name;
    this.stage.theme(name);
    this.legend();
    this.refresh();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = $("stage");
    if (!width || !height) return;
    this.stage.resize(width, height);
    const covered = getComputedStyle($("panel")).position === "absolute" && width > 900 ? $("panel").offsetWidth : 0;
    this.orbit.resize(width, height, covered);
  }

  // Time.

  play(on) {
    if (on && this.scene.times < 2) return;
    if (on && this.time >= this.scene.times - 1) this.time = 0;
    this.playing = on;
    this.before = undefined;
    $("symbol").setAttribute("d", on ? "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z" : "M8 5v14l11-7z");
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    this.refresh();
  }

  seek(time) {
    this.time = Math.min(this.scene.times - 1, Math.max(0, time));
    this.waiting = 0;
    this.refresh();
  }

  step(by) {
    this.play(false);
    this.seek((by > 0 ? Math.floor(this.time + 1e-9) : Math.ceil(this.time - 1e-9)) + by);
  }

  faster(by) {
    this.speed = Math.min(SPEEDS.length - 1, Math.max(0, this.speed + by));
    $("speed").textContent = `${SPEEDS[this.speed]}×`;
  }

  get now() {
    const { t, times } = this.scene, before = Math.min(Math.floor(this.time), times - 1), after = Math.min(before + 1, times - 1);
    return t[before] + (this.time - before) * (t[after] - t[before]);
  }

  // Drawing: only when something has changed.

  refresh() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame((stamp) => this.frame(stamp));
  }

  frame(stamp) {
    this.asked = false;
    if (this.playing) {
      const passed = this.before === undefined ? 0 : Math.min(0.1, (stamp - this.before) / 1000), end = this.scene.times - 1;
      this.before = stamp;
      if (this.time >= end) {
        this.waiting += passed;
        if (this.waiting > 0.9) [this.time, this.waiting] = [0, 0];
      } else this.time = Math.min(end, this.time + passed * this.rate * SPEEDS[this.speed]);
      this.refresh();
    }
    const dimmed = this.picked >= 0 ? 0.55 : 1, lead = this.picked >= 0 ? this.picked : this.scene.each > 1 ? this.solid : -1;
    this.stage.render(this.orbit.camera, this.time, lead, this.solid, this.scene.each > 1 && this.scene.number > 1 ? 0.3 : dimmed);
    if (this.quantity) this.plot.draw(this.quantity, this.time, this.picked >= 0 ? this.picked : -1);
    $("scrub").value = this.time;
    $("clock").textContent = `t = ${short(this.now)}`;
    this.caption();
    this.card();
    this.gizmo();
    this.drawn += 1;
  }

  caption() {
    if (!this.quantity) return;
    const { scene } = this, band = scene.number > 1 ? `mean and middle 90 % of ${scene.number.toLocaleString("en")} paths` : "";
    const text = `${this.quantity.name}${band ? `: ${band}` : ""}${this.picked >= 0 ? `; path ${scene.paths[this.picked]}` : ""}`;
    if ($("caption").textContent !== text) $("caption").textContent = text;
  }

  gizmo() {
    const canvas = $("axes"), pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), ratio = 2;
    if (canvas.width !== 144) canvas.width = canvas.height = 144;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, 72, 72);
    pen.strokeStyle = pen.fillStyle = style.getPropertyValue("--quiet");
    pen.font = "11px system-ui, sans-serif";
    [pen.textAlign, pen.textBaseline, pen.lineWidth] = ["center", "middle", 1.2];
    const inverse = this.orbit.camera.matrixWorldInverse;
    ["x", "y", "z"].slice(0, this.scene.dimension).forEach((name, axis) => {
      const [dx, dy] = [inverse.elements[4 * axis], -inverse.elements[4 * axis + 1]];
      pen.beginPath();
      pen.moveTo(36, 36);
      pen.lineTo(36 + 22 * dx, 36 + 22 * dy);
      pen.stroke();
      pen.fillText(name, 36 + 30 * dx, 36 + 30 * dy);
    });
  }

  // Picking.

  nearest(x, y, within) {
    const { scene, orbit } = this, matrix = new THREE.Matrix4().multiplyMatrices(orbit.camera.projectionMatrix, orbit.camera.matrixWorldInverse);
    const place = new THREE.Vector3();
    let best = -1, least = within ** 2, depth = Infinity;
    for (let point = 0; point < scene.count; point++) {
      place.copy(this.stage.place(this.time, point)).applyMatrix4(matrix);
      if (!(place.z < 1)) continue;
      const far = (((place.x + 1) / 2) * orbit.width - x) ** 2 + (((1 - place.y) / 2) * orbit.height - y) ** 2;
      if (far < least - 4 || (far < least + 4 && far < within ** 2 && place.z < depth)) [best, least, depth] = [point, far, place.z];
    }
    return best;
  }

  pick(path, point = 0) {
    this.picked = path;
    this.point = point;
    $("card").hidden = path < 0;
    this.refresh();
  }

  // The numbers of the path that was picked, at the saved time nearest to the present one.
  numbers() {
    const { scene, picked, point } = this, time = Math.round(this.time), row = scene.exact ? scene.exact.paths.indexOf(picked) : -1;
    const { indices, dimension, quantities } = scene, width = row >= 0 ? scene.exact.shape[2] : 0;
    const exact = (column) => scene.exact.values[(row * scene.times + time) * width + column];
    const failed = scene.status[picked] > 0 && time >= scene.failed[picked];
    const rows = [["time", scene.t[time]], ["status", scene.statuses[failed ? scene.status[picked] : 0]?.toLowerCase().replaceAll("_", " ") ?? "converged"]];
    const coordinates = row >= 0 && scene.n <= 12 ? [...Array(scene.n).keys()] : indices ? indices[point] : null;
    const drawn = (axis) => scene.points.at(time, picked * scene.each + point, axis);
    if (coordinates) coordinates.forEach((i, axis) => rows.push([`q[${i}]`, row >= 0 ? exact(i) : drawn(axis)]));
    else for (let axis = 0; axis < dimension; axis++) rows.push(["xyz"[axis], drawn(axis)]);
    quantities.forEach((quantity, i) => quantity.values && rows.push([quantity.name, row >= 0 ? exact(scene.n + i) : quantity.at(time, picked)]));
    const rounded = Math.max(...scene.points.step.map((s) => (s === 1 ? 0 : s))) / 2;
    return { rows, precision: row >= 0 ? "" : `Rounded for the page: places to ±${short(rounded)}.` };
  }

  card() {
    if (this.picked < 0) return;
    const { scene } = this, { rows, precision } = this.numbers(), list = $("numbers");
    $("who").textContent = `Path ${scene.paths[this.picked]}${scene.each > 1 ? `, point ${this.point * scene.stride}` : ""}`;
    while (list.children.length > 2 * rows.length) list.lastChild.remove();
    while (list.children.length < 2 * rows.length) list.append(document.createElement("dt"), document.createElement("dd"));
    rows.forEach(([name, value], i) => {
      const text = typeof value === "number" ? (Number.isFinite(value) ? String(+value.toPrecision(9)) : "not a number") : value;
      list.children[2 * i].textContent = name;
      list.children[2 * i + 1].textContent = text;
      list.children[2 * i + 1].dataset.value = value;
    });
    $("precision").textContent = precision;
  }

  // What people do.

  listen() {
    const keys = {
      " ": () => this.play(!this.playing), ArrowLeft: (e) => this.step(e.shiftKey ? -10 : -1), ArrowRight: (e) => this.step(e.shiftKey ? 10 : 1),
      Home: () => this.seek(0), End: () => this.seek(this.scene.times - 1), "+": () => this.faster(1), "=": () => this.faster(1), "-": () => this.faster(-1),
      "[": () => this.pick((Math.max(this.picked, 0) + this.scene.number - 1) % this.scene.number, this.point),
      "]": () => this.pick((this.picked + 1) % this.scene.number, this.point),
      r: () => this.orbit.reset(), t: () => this.shade(this.themed === "dark" ? "light" : "dark"), "?": () => $("help").showModal(), Escape: () => this.pick(-1),
    };
    document.addEventListener("keydown", (event) => {
      const own = event.target.matches("select") || (event.target.matches("button") && event.key === " ") || $("help").open;
      if (own || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key](event);
    });
    const click = { play: keys[" "], reset: keys.r, theme: keys.t, ask: keys["?"], drop: keys.Escape };
    for (const [id, action] of Object.entries(click)) $(id).addEventListener("click", action);
    $("speed").addEventListener("click", () => this.faster(this.speed === SPEEDS.length - 1 ? -this.speed : 1));
    $("scrub").addEventListener("input", (event) => {
      this.play(false);
      this.seek(+event.target.value);
    });
    $("trail").addEventListener("input", (event) => {
      this.stage.trails.material.uniforms.span.value = +event.target.value;
      this.refresh();
    });
    $("colour").addEventListener("change", () => this.recolour());
    $("quantity").addEventListener("change", () => this.refresh());
    night.addEventListener("change", () => this.shade(night.matches ? "dark" : "light"));
    $("view").addEventListener("click", (event) => {
      if (this.orbit.moved > 6) return;
      const box = $("view").getBoundingClientRect();
      const point = this.nearest(event.clientX - box.left, event.clientY - box.top, event.pointerType === "touch" ? 26 : 14);
      this.pick(point < 0 ? -1 : Math.floor(point / this.scene.each), point < 0 ? 0 : point % this.scene.each);
    });
    $("view").addEventListener("dblclick", () => this.orbit.reset());
    document.addEventListener("visibilitychange", () => (this.before = undefined));
  }
}

function complain(error) {
  $("message").textContent = error;
  $("message").hidden = false;
}

load().then((scene) => {
  let stage;
  try {
    stage = new Stage($("view"), scene);
  } catch {
    complain("This page draws with WebGL 2, which this browser does not offer; it may be switched off in the settings.");
    return;
  }
  window.holonax = new Player(scene, stage);
}, () => complain("This browser is too old to unpack the page: it needs DecompressionStream (Chrome 80, Firefox 113, Safari 16.4)."));
