/** Something a person can fix: printed without a stack, with the command that fixes it. */
export class SetUpError extends Error {
  /** @param {string} what @param {string} [fix] the command or setting that helps */
  constructor(what, fix) {
    super(fix ? `${what}\n  Fix: ${fix}` : what);
    this.name = 'SetUpError';
  }
}

/** Runs a script's main function; a SetUpError becomes a plain message and exit code 1. */
export async function runMain(main) {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof SetUpError)) throw error;
    process.stderr.write(`\n@verlet/torch: ${error.message}\n`);
    process.exitCode = 1;
  }
}
