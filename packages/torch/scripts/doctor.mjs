#!/usr/bin/env node
// npx verlet-torch: prints what libtorch, the processor and the GPUs look like from here, and what to do about problems.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const built = new URL('../dist/doctor.js', import.meta.url);
if (!existsSync(fileURLToPath(built))) {
  console.error('@verlet/torch: the TypeScript is not compiled yet. Run: npm run build');
  process.exit(1);
}
const { examine, formatFindings } = await import(built.href);
const findings = await examine();
console.log(formatFindings(findings));
process.exitCode = findings.some((finding) => finding.state === 'problem') ? 1 : 0;
