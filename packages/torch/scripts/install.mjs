// npm's install script: finds or fetches libtorch, then builds the addon against it.
// Set VERLET_SKIP_BUILD=1 to leave both out (for packing, or for pages that need no tensors).
import { buildAddon } from './build.mjs';
import { locateLibtorch } from './locate-libtorch.mjs';
import { say } from './processes.mjs';
import { runMain, SetUpError } from './set-up-error.mjs';

await runMain(async () => {
  if (process.env.VERLET_SKIP_BUILD) {
    say('VERLET_SKIP_BUILD is set: not building. Build later with: npm rebuild @verlet/torch');
    return;
  }
  if (process.platform === 'win32') throw new SetUpError('Windows is not supported yet', 'use WSL 2');
  const started = Date.now();
  const libtorch = await locateLibtorch();
  say(`libtorch ${libtorch.version} (${libtorch.variant}) from ${libtorch.source}: ${libtorch.folder}`);
  const built = await buildAddon(libtorch);
  say(
    `addon ${built.cached ? 'taken from the cache' : 'compiled'}; ready after ${((Date.now() - started) / 1000).toFixed(1)} s`,
  );
});
