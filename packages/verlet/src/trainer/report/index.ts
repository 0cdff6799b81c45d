/** The report that a run leaves: curves, best checkpoint, answers before and after, where time went, what to do next. */
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Tracker } from '../trackers/index.js';
import { chartsSvg } from './chart.js';
import { reportContent } from './content.js';
import { readHistory } from './history.js';
import { reportHtml } from './html.js';
import { reportMarkdown, reportSummary } from './markdown.js';

export interface RunReport {
  /** For the console. */
  summary: string;
  files: { markdown: string; html: string; svg: string };
  /** Hugging Face folder of the best checkpoint, null when none was saved. */
  bestFolder: string | null;
}

/** Reads a run folder and writes `report.md`, `report.html` and `report.svg` into it. */
export function writeRunReport(runFolder: string, title: string): RunReport {
  const content = reportContent(readHistory(runFolder), title);
  const files = {
    markdown: path.join(runFolder, 'report.md'),
    html: path.join(runFolder, 'report.html'),
    svg: path.join(runFolder, 'report.svg'),
  };
  const write = (file: string, text: string): void => {
    writeFileSync(`${file}.tmp`, text);
    renameSync(`${file}.tmp`, file);
  };
  write(files.markdown, reportMarkdown(content));
  write(files.html, reportHtml(content));
  write(files.svg, chartsSvg(content.charts));
  return { summary: reportSummary(content, files.html), files, bestFolder: content.bestFolder };
}

/** Writes the report when the run ends, from what the trackers before it wrote, and prints its summary where there is a place. */
export function reportTracker(runFolder: string, title: string, print?: (text: string) => void): Tracker {
  return {
    name: 'report',
    log() {},
    finish() {
      const { summary } = writeRunReport(runFolder, title);
      print?.(summary);
    },
  };
}

export { type RunHistory, readHistory, seriesOf } from './history.js';
