// One quantity over time: the mean, the band of 90 percent of the paths, the path that leads, the present time.

function short(x) {
  if (x === null || !Number.isFinite(x)) return "not a number";
  const size = Math.abs(x);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2).replace("e+", "e") : String(+x.toPrecision(4));
}

// With the digits that tell a value from the next, a step away.
function tick(x, step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), size = Math.abs(x);
  return digits <= 5 && size < 1e5 ? x.toFixed(digits) : x === 0 ? "0" : x.toPrecision(Math.min(8, Math.max(1, Math.ceil(Math.log10(size / step) + 1.01)))).replace("e+", "e");
}

// From the middle of the range, which is written below it.
function offset(x) {
  return x === 0 ? "0" : (x > 0 ? "+" : "\u2212") + Math.abs(x).toExponential(0).replace("e-", "e\u2212").replace("e+", "e");
}

class Plot {
  constructor(canvas, scene, seek) {
    this.canvas = canvas;
    this.scene = scene;
    const from = (event) => {
      const box = canvas.getBoundingClientRect();
      seek(((event.clientX - box.left - this.left) / (box.width - this.left - this.right)) * (scene.times - 1));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      from(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && from(event));
    [this.left, this.right, this.top, this.bottom] = [56, 8, 8, 20];
  }

  // The range of what is drawn, a little wider.
  range(quantity, lead) {
    const values = [...quantity.low, ...quantity.high].filter((x) => x !== null);
    if (lead >= 0) for (let time = 0; time < this.scene.times; time++) values.push(quantity.at(time, lead));
    const known = values.filter(Number.isFinite);
    let low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!(low <= high)) [low, high] = [0, 1];
    const least = 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-300), pad = Math.max(0.06 * (high - low), least);
    return [low - pad, high + pad];
  }

  draw(quantity, time, lead) {
    const { canvas, scene, left, right, top, bottom } = this, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [width * ratio, height * ratio].map(Math.round);
    }
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const css = (name) => style.getPropertyValue(`--${name}`);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const [low, high] = this.range(quantity, lead), last = Math.max(scene.times - 1, 1);
    const x = (i) => left + ((width - left - right) * i) / last, y = (v) => top + ((height - top - bottom) * (high - v)) / (high - low);
    pen.font = "10.5px system-ui, sans-serif";
    this.axes(pen, css, x, y, low, high, width, height);
    const line = (values, colour, thick) => {
      pen.beginPath();
      let open = false;
      values.forEach((v, i) => {
        const known = v !== null && Number.isFinite(v);
        if (known) open ? pen.lineTo(x(i), y(v)) : pen.moveTo(x(i), y(v));
        open = known;
      });
      pen.strokeStyle = colour;
      pen.lineWidth = thick;
      pen.lineJoin = "round";
      pen.stroke();
    };
    const times = [...quantity.mean.keys()], known = times.filter((i) => quantity.low[i] !== null && quantity.high[i] !== null);
    pen.beginPath();
    known.forEach((i) => pen.lineTo(x(i), y(quantity.high[i])));
    known.reverse().forEach((i) => pen.lineTo(x(i), y(quantity.low[i])));
    pen.fillStyle = css("band");
    pen.fill();
    line(quantity.mean, css("ink"), 1.5);
    if (lead >= 0) line(times.map((i) => quantity.at(i, lead)), css("accent"), 1.2);
    pen.beginPath();
    pen.moveTo(x(time), top);
    pen.lineTo(x(time), height - bottom);
    pen.strokeStyle = css("accent");
    pen.lineWidth = 1;
    pen.stroke();
    const now = lead >= 0 ? quantity.at(time, lead) : quantity.mean[Math.round(time)];
    if (now !== null && Number.isFinite(now)) {
      pen.beginPath();
      pen.arc(x(time), y(now), 3, 0, 7);
      pen.fillStyle = css("accent");
      pen.fill();
    }
  }

  axes(pen, css, x, y, low, high, width, height) {
    const { scene, left, right, bottom } = this;
    const span = high - low, unit = 10 ** Math.floor(Math.log10(span / 2));
    const step = [1, 2, 5, 10].map((k) => k * unit).find((k) => span / k <= 4) || unit * 10;
    pen.fillStyle = css("quiet");
    pen.strokeStyle = css("line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    // What hardly changes, such as an energy that is kept, is counted from its middle.
    const base = span < 1e-4 * Math.max(Math.abs(low), Math.abs(high)) ? (low + high) / 2 : 0;
    for (let k = Math.ceil((low - base) / step); base + k * step <= high; k++) {
      const at = Math.round(y(base + k * step)) + 0.5;
      pen.beginPath();
      pen.moveTo(left, at);
      pen.lineTo(width - right, at);
      pen.stroke();
      pen.fillText(base ? offset(k * step) : tick(k * step, step), left - 6, at);
    }
    pen.textBaseline = "alphabetic";
    pen.textAlign = "center";
    if (base) pen.fillText(`0 is ${+base.toPrecision(7)}`, (left + width - right) / 2, height - 6);
    pen.textAlign = "left";
    pen.fillText(`t = ${short(scene.t[0])}`, left, height - 6);
    pen.textAlign = "right";
    if (scene.times > 1) pen.fillText(short(scene.t[scene.times - 1]), width - right, height - 6);
  }
}
