import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { composeConfig } from '../config/index.js';
import { agentLoopNames } from './loops/index.js';
import { loadAgentSetup } from './setup.js';
import { resolveAgentConfig } from './types.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-setup-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const weather = fileURLToPath(new URL('./fixtures/weather.mjs', import.meta.url));

function write(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

it('follows the configuration and loads the files it names', async () => {
  const loops = write('loops.yaml', `- { name: one_word_agent, _target_: '${weather}#oneWord' }`);
  const interactions = write('interactions.yaml', `interaction: [{ class_name: '${weather}#CoinFlipInteraction' }]`);
  const { config } = composeConfig({
    kind: 'ppo',
    allowMissing: true,
    skipChecks: true,
    overrides: [
      'data.max_prompt_length=100',
      'data.max_response_length=200',
      'data.max_obs_length=50',
      'retriever.topk=5',
      'max_turns=4',
      'actor_rollout_ref.rollout.temperature=0.7',
      'actor_rollout_ref.rollout.multi_turn.max_assistant_turns=3',
      'actor_rollout_ref.rollout.multi_turn.tool_response_truncate_side=left',
      'actor_rollout_ref.rollout.agent.default_agent_loop=one_word_agent',
      `actor_rollout_ref.rollout.agent.agent_loop_config_path=${loops}`,
      `actor_rollout_ref.rollout.multi_turn.interaction_config_path=${interactions}`,
      `actor_rollout_ref.rollout.multi_turn.function_tool_path=${weather}`,
    ],
  });
  const setup = await loadAgentSetup(config);
  expect(resolveAgentConfig(setup.config)).toMatchObject({
    defaultAgentLoop: 'one_word_agent',
    maxPromptLength: 100,
    responseLength: 200,
    maxAssistantTurns: 3,
    maxUserTurns: null,
    toolResponseTruncateSide: 'left',
    sampling: { temperature: 0.7, topK: -1, seed: 42 },
    search: { topk: 5, maxTurns: 4, maxObsLength: 50, maxStartLength: null },
  });
  expect(setup.tools.map(({ name }) => name)).toEqual(['clock']);
  expect(setup.interactions.map(({ name }) => name)).toEqual(['coinflip']);
  expect(agentLoopNames()).toContain('one_word_agent');
  await setup.close();
});
