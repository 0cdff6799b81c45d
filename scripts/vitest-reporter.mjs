// Beside vitest's own output: every skipped test with its reason, and the counts as a file for scripts/test.mjs.
import { writeFileSync } from 'node:fs';

export default class SummaryReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const skipped = new Map();
    for (const module of modules) {
      if (module.errors().length) counts.failed += 1;
      for (const suite of module.children.allSuites()) if (suite.errors().length) counts.failed += 1;
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (result.state === 'passed') counts.passed += 1;
        else if (result.state === 'failed') counts.failed += 1;
        else {
          counts.skipped += 1;
          const reason = `${module.relativeModuleId}: ${result.note ?? /skipped: ([^)]*)/.exec(test.fullName)?.[1] ?? 'no reason given'}`;
          skipped.set(reason, [...(skipped.get(reason) ?? []), test.fullName]);
        }
      }
    }
    if (counts.skipped) console.log('\nSkipped:');
    for (const [reason, names] of skipped) {
      console.log(`  ${reason}`);
      for (const name of names) console.log(`    - ${name}`);
    }
    if (process.env.VERLET_TEST_COUNTS) writeFileSync(process.env.VERLET_TEST_COUNTS, JSON.stringify(counts));
  }
}
