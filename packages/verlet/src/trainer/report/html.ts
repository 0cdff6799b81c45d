import { clock, short } from '../trackers/words.js';
import { chartsSvg, escapeXml } from './chart.js';
import type { BeforeAfter, ReportContent } from './content.js';

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;max-width:880px;margin:2rem auto;padding:0 1rem;color:#111827}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
pre{background:#f3f4f6;padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:.8rem;margin-bottom:1.2rem}.pair>:first-child{grid-column:1/3}
.bar{display:inline-block;height:.7em;background:#2563eb}svg{max-width:100%;height:auto}`;

/** One file without anything to fetch. All text that models or people wrote is escaped. */
export function reportHtml(content: ReportContent): string {
  const row = (cells: readonly string[]): string => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
  const facts = content.facts.map(([label, value]) => row([escapeXml(label), escapeXml(value)]));
  const timing = content.timing.map(({ phase, seconds, share }) =>
    row([
      escapeXml(phase),
      clock(seconds),
      `${(share * 100).toFixed(1)}%`,
      `<span class="bar" style="width:${(share * 300).toFixed(0)}px"></span>`,
    ]),
  );
  const commands = content.commands.map(([command, purpose]) =>
    row([`<code>${escapeXml(command)}</code>`, escapeXml(purpose)]),
  );
  const section = (heading: string, body: string): string => `<h2>${escapeXml(heading)}</h2>\n${body}`;
  const samples = content.samples;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapeXml(content.title)}</title><style>${STYLE}</style></head><body>
<h1>${escapeXml(content.title)}</h1>
<table>${facts.join('\n')}</table>
${content.charts.length ? section('Curves', chartsSvg(content.charts)) : ''}
${timing.length ? section('Where the time went', `<table>${timing.join('\n')}</table>`) : ''}
${samples ? section(`Answers at step ${samples.firstStep} and at step ${samples.lastStep}`, samples.pairs.map(pairHtml).join('\n')) : ''}
${section('What next', `<table>${commands.join('\n')}</table>`)}
</body></html>
`;
}

function pairHtml({ prompt, groundTruth, before, after }: BeforeAfter): string {
  const expected =
    groundTruth === undefined || groundTruth === null ? '' : `expected: <code>${escapeXml(String(groundTruth))}</code>`;
  const side = (label: string, { response, score }: BeforeAfter['before']): string =>
    `<div>${label}, score ${short(score)}<pre>${escapeXml(response)}</pre></div>`;
  return `<div class="pair"><div><pre>${escapeXml(prompt)}</pre>${expected}</div>${side('before', before)}${side('after', after)}</div>`;
}
