/** Curves as SVG. One colour a run. */
export const COLORS = ['#2563eb', '#dc2626', '#059669', '#d97706', '#7c3aed', '#0891b2', '#db2777', '#65a30d'];

const WIDTH = 340;
const HEIGHT = 170;
const LEFT = 44;
const BOTTOM = 18;
const TOP = 6;

/** Exponential moving average, corrected for its start. */
export function smoothed(points, weight) {
  let sum = 0;
  let scale = 0;
  return points.map(([step, value]) => {
    sum = weight * sum + (1 - weight) * value;
    scale = weight * scale + (1 - weight);
    return [step, sum / scale];
  });
}

export function short(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 1e-3 || size >= 1e6) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function element(name, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** @param {{ color: string, points: [number, number][] }[]} series */
export function drawChart(series) {
  const svg = element('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) return svg;
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [step, value] of points) {
    left = Math.min(left, step);
    right = Math.max(right, step);
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low === high) [low, high] = [low - (Math.abs(low) * 0.1 || 0.5), high + (Math.abs(high) * 0.1 || 0.5)];
  const x = (step) => LEFT + ((step - left) / (right - left || 1)) * (WIDTH - LEFT - 8);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
  for (let k = 0; k <= 3; k++) {
    const value = low + ((high - low) * k) / 3;
    svg.append(element('line', { x1: LEFT, x2: WIDTH - 8, y1: y(value), y2: y(value) }));
    svg.append(element('text', { x: LEFT - 4, y: y(value) + 3, 'text-anchor': 'end' }, short(value)));
  }
  svg.append(element('text', { x: LEFT, y: HEIGHT - 4 }, String(left)));
  svg.append(element('text', { x: WIDTH - 8, y: HEIGHT - 4, 'text-anchor': 'end' }, String(right)));
  for (const { color, points: own } of series) {
    if (own.length === 0) continue;
    const path = own.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
    svg.append(element('polyline', { points: path, stroke: color }));
    const [step, value] = own.at(-1);
    svg.append(element('circle', { cx: x(step), cy: y(value), r: 2.5, fill: color }));
  }
  return svg;
}
