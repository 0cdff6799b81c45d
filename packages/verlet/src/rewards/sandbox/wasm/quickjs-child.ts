import { channelSource } from './channel.js';
import { quickjsPrelude } from './quickjs-prelude.js';

/** QuickJS in a Node process of its own; a new runtime for every program. */
export const quickjsChildSource = String.raw`
${channelSource}
const { getQuickJS } = await import(process.argv[process.argv.length - 1]);
const quickjs = await getQuickJS();
const prelude = ${JSON.stringify(quickjsPrelude)};
delete globalThis.fetch;
writeFrame({ ready: true });

let isBroken = false;
function runProgram(nonce, stdin, job, outputs) {
  const deadline = Date.now() + job.limits.timeoutMs;
  const sizes = [0, 0], kept = [];
  let why;
  const runtime = quickjs.newRuntime({ memoryLimitBytes: job.limits.memoryMb * (1 << 20), maxStackSizeBytes: 1 << 20,
    interruptHandler: () => { if (Date.now() > deadline) why ??= 'timeout'; return why !== undefined; } });
  const context = runtime.newContext();
  const keep = (handle) => { kept.push(handle); return handle; };
  class Raised { constructor(handle) { this.detail = context.dump(keep(handle)); } }
  const value = (result) => { if (result.error) throw new Raised(result.error); return keep(result.value); };
  const capture = (fd, text) => {
    const index = fd === 2 ? 1 : 0;
    const room = job.limits.outputBytes - sizes[index];
    sizes[index] += Buffer.byteLength(text);
    if (sizes[index] > job.limits.outputBytes) { why ??= 'output-limit'; text = text.slice(0, Math.max(0, room)); }
    outputs[index] += text;
  };
  try {
    const write = keep(context.newFunction('write', (fd, text) => { capture(context.getNumber(fd), context.getString(text)); }));
    const receive = keep(context.newFunction('receive', () => { const line = receiveReply(); return line === null ? context.null : context.newString(line); }));
    const send = keep(context.newFunction('send', (text) => { writeFrame({ nonce, wire: context.getString(text) }); }));
    const make = value(context.evalCode(prelude, 'sandbox.js'));
    const program = value(context.callFunction(make, context.undefined, write, receive, send, keep(context.newString(stdin))));
    const call = (name, ...args) => value(context.callFunction(keep(context.getProp(program, name)), program, ...args));
    call('run', keep(context.newString(JSON.stringify(job))));
    for (let more = true; more && why === undefined; ) {
      do {
        call('runTicks');
        const jobs = runtime.executePendingJobs();
        if (jobs.error) throw new Raised(jobs.error);
      } while (why === undefined && (runtime.hasPendingJob() || context.dump(call('hasTicks')) === true));
      more = why === undefined && context.dump(call('nextTimer')) === true;
    }
    const code = Number(context.dump(call('exitCode')) ?? 0);
    return why ? { status: why, exitCode: null } : { status: code === 0 ? 'ok' : 'error', exitCode: code };
  } catch (error) {
    if (!(error instanceof Raised)) throw error;
    const { detail } = error;
    if (why) return { status: why, exitCode: null };
    if (detail && typeof detail === 'object' && 'exitCode' in detail) {
      const code = Number(detail.exitCode) || (job.mode === 'script' ? 0 : 1);
      return { status: code === 0 ? 'ok' : 'error', exitCode: code };
    }
    capture(2, (detail && detail.message !== undefined ? detail.name + ': ' + detail.message + '\n' + (detail.stack ?? '') : String(detail)) + '\n');
    return { status: detail && detail.message === 'out of memory' ? 'memory' : 'error', exitCode: 1 };
  } finally {
    // QuickJS asserts that nothing is left; after a stack overflow something is. Then this process has run its last program.
    try {
      for (const handle of kept.reverse()) if (handle.alive) handle.dispose();
      context.dispose();
      runtime.dispose();
    } catch { isBroken = true; }
  }
}

for (let text = readLine(); text !== null; text = readLine()) {
  const { nonce, stdin = '', ...job } = JSON.parse(text);
  if (!('code' in job)) continue;
  const began = performance.now();
  const outputs = ['', ''];
  let outcome = { status: 'error', exitCode: 1 };
  try { outcome = runProgram(nonce, stdin, job, outputs); } catch (error) { outputs[1] += String(error); isBroken = true; }
  const result = { ...outcome, stdout: outputs[0], stderr: outputs[1], durationMs: performance.now() - began };
  writeFrame({ nonce, result, dirty: isBroken || (outcome.status !== 'ok' && outcome.status !== 'error') });
}
leave(0);
`;
