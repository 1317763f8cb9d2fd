// Arrays out of the page: base64, inflated, differences summed up.

const header = JSON.parse(document.getElementById("scene").textContent);
const MISSING = 65535;

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// 16 bits (times, items, channels): {codes, low, step, shape, at(time, item, channel)}.
async function quantised({ shape, low, step, data }) {
  const bytes = await inflate(data);
  const size = bytes.length / 2, frame = size / shape[0];
  const codes = new Uint16Array(size);
  for (let i = 0; i < size; i++) {
    const folded = bytes[i] | (bytes[i + size] << 8);
    codes[i] = (i < frame ? 0 : codes[i - frame]) + ((folded >> 1) ^ -(folded & 1));
  }
  const [, items, channels] = shape;
  const value = (code, channel) => (code === MISSING ? NaN : low[channel] + step[channel] * code);
  const at = (time, item, channel) => value(codes[(time * items + item) * channels + channel], channel);
  return { codes, low, step, shape, at };
}

// Between two times; the last one beyond it.
function between(array, time, item, channel) {
  const before = Math.min(Math.floor(time), array.shape[0] - 1), after = Math.min(before + 1, array.shape[0] - 1);
  const share = time - before, a = array.at(before, item, channel);
  return share > 0 && after > before ? a + share * (array.at(after, item, channel) - a) : a;
}

async function wide(bytesEach, data) {
  const planes = await inflate(data), size = planes.length / bytesEach, bytes = new Uint8Array(planes.length);
  for (let plane = 0, k = 0; plane < bytesEach; plane++) for (let i = 0; i < size; i++) bytes[i * bytesEach + plane] = planes[k++];
  return bytes.buffer;
}

async function exact({ shape, data }) {
  return { shape, values: new Float64Array(await wide(8, data)) };
}

async function whole({ data }) {
  const values = new Int32Array(await wide(4, data));
  for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
  return values;
}

async function load() {
  const scene = { ...header, times: header.t.length, count: header.points.shape[1] };
  scene.number = scene.paths.length;
  scene.each = scene.count / scene.number;
  scene.points = await quantised(header.points);
  for (const quantity of scene.quantities) {
    if (quantity.values) {
      quantity.array = await quantised(quantity.values);
      quantity.at = (time, path) => between(quantity.array, time, path, 0);
    } else {
      quantity.at = (time, path) => between(scene.points, time, path * scene.each + quantity.point, quantity.axis);
    }
  }
  if (header.exact) scene.exact = { paths: header.exact.paths, ...(await exact(header.exact)) };
  if (header.surface) {
    scene.surface = { corners: await quantised(header.surface.corners), cells: await whole(header.surface.cells) };
  }
  if (header.bodies) {
    scene.bodies = {
      turns: await quantised(header.bodies.turns), middles: await quantised(header.bodies.middles), sizes: header.bodies.sizes,
    };
  }
  return scene;
}
