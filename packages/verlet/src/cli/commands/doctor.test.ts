import { describe, expect, it } from 'vitest';
import { type CommandOutput, EXIT } from '../command.js';
import { runCommandLine } from '../frame.js';

async function doctor(...words: string[]) {
  const printed: string[] = [];
  const io: CommandOutput = { print: (text) => printed.push(text), note: () => undefined };
  const exitCode = await runCommandLine(['doctor', ...words], { io, signal: new AbortController().signal });
  return { exitCode, text: printed.join('\n') };
}

describe('verlet doctor', () => {
  it('finds a working machine where the tests run', async () => {
    const { exitCode, text } = await doctor();
    expect(text).toContain('No problems found.');
    expect(exitCode).toBe(EXIT.ok);
  });

  it('covers Node, libtorch, processor, GPUs, sandbox and caches, for programs too', async () => {
    const { text } = await doctor('--json');
    const findings = JSON.parse(text) as { section: string; name: string; value: string; state: string }[];
    const value = (section: string, name: string) =>
      findings.find((f) => f.section === section && f.name === name)?.value;
    expect(value('Node.js', 'version')).toContain(process.version);
    expect(value('libtorch', 'version')).toMatch(/^2\.\d+\.\d+.* \((cpu|cuda)\)$/);
    expect(value('libtorch', 'threads')).toMatch(/^\d+ \(\d+ cores/);
    for (const section of [
      'Processor',
      'NVIDIA GPUs',
      'Sandbox for untrusted code',
      'Per-user cache',
      'Hugging Face hub',
    ]) {
      expect(findings.some((finding) => finding.section === section)).toBe(true);
    }
  });
});
