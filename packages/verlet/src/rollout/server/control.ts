/** vLLM's and SGLang's endpoints for whoever trains the model that is served here. */
import type { Context, Hono } from 'hono';
import type { Engine } from '../types.js';

export function addControl(app: Hono, engine: Engine, access: (c: Context) => Promise<unknown>): void {
  let isSleeping = false;
  const control = (path: string, act: () => Promise<void>) =>
    app.post(path, async (c) => {
      await access(c);
      await act();
      return c.body(null, 200);
    });
  control('/sleep', async () => {
    await engine.sleep();
    isSleeping = true;
  });
  control('/wake_up', async () => {
    await engine.wake();
    isSleeping = false;
  });
  control('/reset_prefix_cache', () => engine.updateWeights());
  // SGLang's; the folder is on this machine.
  const { loadWeights } = engine as { loadWeights?: (folder: string) => Promise<void> };
  if (loadWeights)
    app.post('/update_weights_from_disk', async (c) => {
      await access(c);
      const { model_path: folder } = (await c.req.json().catch(() => ({}))) as { model_path?: unknown };
      if (typeof folder !== 'string') return c.json({ success: false, message: 'model_path must name a folder' }, 400);
      try {
        await loadWeights.call(engine, folder);
        return c.json({ success: true, message: `weights taken from ${folder}` });
      } catch (error) {
        return c.json({ success: false, message: (error as Error).message }, 400);
      }
    });
  app.get('/is_sleeping', async (c) => {
    await access(c);
    return c.json({ is_sleeping: isSleeping });
  });
}
