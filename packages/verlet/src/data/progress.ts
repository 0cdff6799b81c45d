/** A bar that redraws itself in a terminal and is a line per tenth in a log. Short work shows nothing. */
export function progressBar(
  label: string,
  output: { isTTY?: boolean; write(text: string): unknown } = process.stderr,
): (done: number, total: number) => void {
  let shown = -1;
  let isDrawn = false;
  return (done, total) => {
    const steps = output.isTTY ? 40 : 10;
    const step = Math.floor((steps * done) / Math.max(1, total));
    if (step === shown || (done >= total && !isDrawn)) return;
    shown = step;
    isDrawn = true;
    const count = `${done}/${total}`;
    if (!output.isTTY) output.write(`${label}: ${count}\n`);
    else output.write(`\r${label} [${'#'.repeat(step).padEnd(steps, '.')}] ${count}${done >= total ? '\n' : ''}`);
  };
}
