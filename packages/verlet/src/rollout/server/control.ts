/** vLLM's endpoints for whoever trains the model that is served here. */
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
  app.get('/is_sleeping', async (c) => {
    await access(c);
    return c.json({ is_sleeping: isSleeping });
  });
}
