// A camera that circles around a target, turned by mouse, touch or fingers; in a plane it only moves and zooms.

class Orbit {
  constructor(element, dimension, changed) {
    this.camera = new THREE.PerspectiveCamera(32, 1, 0.01, 100);
    this.flat = dimension === 2;
    this.camera.up.set(0, this.flat ? 1 : 0, this.flat ? 0 : 1);
    this.target = new THREE.Vector3();
    this.changed = changed;
    this.pointers = new Map();
    this.element = element;
    this.moved = 0;
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    element.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(0.0012 * event.deltaY * (event.deltaMode === 1 ? 20 : 1)));
    }, { passive: false });
    element.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  fit(middle, radius) {
    this.home = { middle: middle.clone(), radius };
    this.reset();
  }

  reset() {
    this.target.copy(this.home.middle);
    [this.azimuth, this.elevation] = this.flat ? [-Math.PI / 2, Math.PI / 2] : [-1.05, 0.36];
    this.zoomed = 1;
    this.update();
  }

  resize(width, height, hidden) {
    this.width = width;
    this.height = height;
    this.camera.aspect = width / height;
    this.camera.setViewOffset(width, height, hidden / 2, 0, width, height);
    this.free = Math.min(1, (width - hidden) / height);
    this.update();
  }

  get distance() {
    const half = Math.tan((this.camera.fov * Math.PI) / 360) * (this.free || 1);
    return (1.12 * this.home.radius * this.zoomed) / Math.sin(Math.atan(half));
  }

  update() {
    if (!this.home) return;
    const r = this.distance, c = Math.cos(this.elevation), camera = this.camera;
    const way = this.flat ? [0, 0, 1] : [c * Math.cos(this.azimuth), c * Math.sin(this.azimuth), Math.sin(this.elevation)];
    camera.position.set(...way).multiplyScalar(r).add(this.target);
    camera.near = Math.max(r - 4 * this.home.radius, r / 100);
    camera.far = r + 6 * this.home.radius;
    camera.lookAt(this.target);
    camera.updateProjectionMatrix();
    camera.updateMatrixWorld();
    this.changed();
  }

  zoom(factor) {
    this.zoomed = Math.min(8, Math.max(0.02, this.zoomed * factor));
    this.update();
  }

  turn(dx, dy) {
    this.azimuth -= 0.007 * dx;
    this.elevation = Math.min(1.55, Math.max(-1.55, this.elevation + 0.007 * dy));
    this.update();
  }

  pan(dx, dy) {
    const unit = (2 * this.distance * Math.tan((this.camera.fov * Math.PI) / 360)) / this.height;
    const [right, up] = [0, 1].map((axis) => new THREE.Vector3().setFromMatrixColumn(this.camera.matrixWorld, axis));
    this.target.addScaledVector(right, -dx * unit).addScaledVector(up, dy * unit);
    this.update();
  }

  down(event) {
    if (this.pointers.size === 0) this.moved = 0;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.element.setPointerCapture(event.pointerId);
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.x, dy = event.clientY - before.y;
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (others.length) {
      const [other] = others;
      const [was, is] = [[before.x, before.y], [event.clientX, event.clientY]].map(([x, y]) => Math.hypot(x - other.x, y - other.y));
      this.pan(dx / 2, dy / 2);
      if (is > 0) this.zoom(was / is);
    } else if (this.flat || event.shiftKey || event.buttons & 6) {
      this.pan(dx, dy);
    } else {
      this.turn(dx, dy);
    }
  }
}
