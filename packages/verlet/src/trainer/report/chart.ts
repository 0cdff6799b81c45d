/** Curves as SVG that stands alone: no script, no style sheet, no font to fetch. */
import { short } from '../trackers/words.js';
import type { Point } from './history.js';

export interface Series {
  label: string;
  points: readonly Point[];
}

export interface Chart {
  title: string;
  series: readonly Series[];
}

const COLORS = ['#2563eb', '#dc2626', '#059669', '#d97706', '#7c3aed', '#0891b2'];
export const CHART = { width: 420, height: 220 };
const MARGIN = { left: 52, right: 14, top: 30, bottom: 26 };

export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Round values that cover a range: 0, 0.2, 0.4 ... */
export function ticks(low: number, high: number, wanted = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough)!;
  const values: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    values.push(Number((k * step).toPrecision(12)));
  return values;
}

/** One chart, as an SVG group at (0, 0). */
function group({ title, series }: Chart): string {
  const points = series.flatMap((one) => one.points);
  const { width, height } = CHART;
  const heading = `<text x="${MARGIN.left}" y="18" font-size="13" font-weight="600">${escapeXml(title)}</text>`;
  if (points.length === 0) return heading;
  const steps = points.map(([step]) => step);
  const values = points.map(([, value]) => value);
  const [left, right] = [Math.min(...steps), Math.max(...steps)];
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high)
    [low, high] = [low - Math.max(0.5, Math.abs(low) * 0.1), high + Math.max(0.5, Math.abs(high) * 0.1)];
  const x = (step: number): number =>
    MARGIN.left + ((step - left) / (right - left || 1)) * (width - MARGIN.left - MARGIN.right);
  const y = (value: number): number =>
    height - MARGIN.bottom - ((value - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
  const place = (value: number): string => value.toFixed(1);
  const grid = ticks(low, high).map(
    (value) =>
      `<line x1="${MARGIN.left}" x2="${width - MARGIN.right}" y1="${place(y(value))}" y2="${place(y(value))}" stroke="#e5e7eb"/>` +
      `<text x="${MARGIN.left - 6}" y="${place(y(value) + 4)}" text-anchor="end" font-size="10" fill="#6b7280">${short(value)}</text>`,
  );
  const feet = ticks(left, right).filter(Number.isInteger);
  const axis = feet.map(
    (step) =>
      `<text x="${place(x(step))}" y="${height - 8}" text-anchor="middle" font-size="10" fill="#6b7280">${step}</text>`,
  );
  const lines = series.map(({ label, points: own }, k) => {
    const color = COLORS[k % COLORS.length];
    const path = own.map(([step, value]) => `${place(x(step))},${place(y(value))}`).join(' ');
    const dots =
      own.length <= 30
        ? own.map(([step, value]) => `<circle cx="${place(x(step))}" cy="${place(y(value))}" r="2.2" fill="${color}"/>`)
        : [];
    const legend =
      series.length > 1
        ? `<text x="${width - MARGIN.right}" y="${18 + 12 * k}" text-anchor="end" font-size="10" fill="${color}">${escapeXml(label)}</text>`
        : '';
    return `<polyline fill="none" stroke="${color}" stroke-width="1.6" points="${path}"/>${dots.join('')}${legend}`;
  });
  return [heading, ...grid, ...axis, ...lines].join('\n');
}

/** All charts in one picture, two beside each other. */
export function chartsSvg(charts: readonly Chart[]): string {
  const columns = Math.min(2, Math.max(1, charts.length));
  const width = columns * CHART.width;
  const height = Math.max(1, Math.ceil(charts.length / columns)) * CHART.height;
  const placed = charts.map(
    (chart, k) =>
      `<g transform="translate(${(k % columns) * CHART.width} ${Math.floor(k / columns) * CHART.height})">\n${group(chart)}\n</g>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" fill="#111827">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...placed,
    '</svg>\n',
  ].join('\n');
}
