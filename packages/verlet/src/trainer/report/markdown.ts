import { sparkline } from '../trackers/sparkline.js';
import { clock, short } from '../trackers/words.js';
import type { Curve, ReportContent } from './content.js';

/** `0.137 ▁▂▅█ 0.94 (best 0.95)` */
export function curveLine({ points }: Curve, width = 32): string {
  const values = points.map(([, value]) => value);
  const ends = `${short(values[0]!)} ${sparkline(values, width)} ${short(values.at(-1)!)}`;
  return `${ends} (lowest ${short(Math.min(...values))}, highest ${short(Math.max(...values))})`;
}

/** A fence that the text itself cannot end. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}`;
}

export function reportMarkdown(content: ReportContent): string {
  const lines = [`# ${content.title}`, '', ...content.facts.map(([label, value]) => `- **${label}**: ${value}`), ''];
  if (content.curves.length)
    lines.push(
      '## Curves',
      '',
      '```text',
      ...table(content.curves.map((curve) => [curve.label, curveLine(curve)])),
      '```',
      '',
      '![curves](report.svg)',
      '',
    );
  if (content.timing.length)
    lines.push(
      '## Where the time went',
      '',
      '| phase | time | share |',
      '|---|---:|---:|',
      ...content.timing.map(
        ({ phase, seconds, share }) => `| ${phase} | ${clock(seconds)} | ${(share * 100).toFixed(1)}% |`,
      ),
      '',
    );
  if (content.samples) {
    const { firstStep, lastStep, pairs } = content.samples;
    lines.push(`## Answers at step ${firstStep} and at step ${lastStep}`, '');
    for (const { prompt, groundTruth, before, after } of pairs)
      lines.push(
        fenced(prompt),
        ...(groundTruth === undefined || groundTruth === null ? [] : ['', `expected: \`${String(groundTruth)}\``]),
        '',
        `before (score ${short(before.score)}):`,
        '',
        fenced(before.response),
        '',
        `after (score ${short(after.score)}):`,
        '',
        fenced(after.response),
        '',
      );
  }
  lines.push(
    '## What next',
    '',
    '```sh',
    ...table(content.commands.map(([command, purpose]) => [command, `# ${purpose}`])),
    '```',
    '',
  );
  return lines.join('\n');
}

/** Two columns of text, the second aligned. */
export function table(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(0, ...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `${left.padEnd(width)}  ${right}`);
}

/** The few lines that end a run on the console. */
export function reportSummary(content: ReportContent, reportFile: string): string {
  const headlines = content.curves.filter(({ label }) => /^(reward|loss|held-out|validation)/.test(label));
  const rows: [string, string][] = [
    ...content.facts,
    ...headlines.map((curve): [string, string] => [curve.label, curveLine(curve, 24)]),
    ['report', reportFile],
  ];
  const next = content.commands.filter(([command]) => /^verlet (train|chat|serve|dashboard)/.test(command));
  const lines = ['', `${content.title}: the run in short`, ...table(rows).map((line) => `  ${line}`)];
  for (const { prompt, before, after } of content.samples?.pairs.slice(0, 2) ?? []) {
    lines.push(`  asked   ${oneLine(prompt)}`);
    lines.push(`  before  ${oneLine(before.response)}  (score ${short(before.score)})`);
    lines.push(`  after   ${oneLine(after.response)}  (score ${short(after.score)})`);
  }
  const commands = table(next.map(([command, purpose]) => [command, `# ${purpose}`]));
  return [...lines, 'next', ...commands.map((line) => `  ${line}`)].join('\n');
}

function oneLine(text: string, width = 100): string {
  const flat = text.replace(/\s+/g, ' ').trim();
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat;
}
