import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defaultName, loadInteractions } from '../interactions/index.js';
import { loadTools } from './config.js';
import { defineTool, type StandardSchema } from './define-tool.js';
import { Toolbox } from './toolbox.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-tools-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));

let files = 0;
function yaml(text: string): string {
  const file = join(folder, `${files++}.yaml`);
  writeFileSync(file, text);
  return file;
}
const config = { toolTimeoutSeconds: 20, maxToolResponseLength: 500, toolResponseTruncateSide: 'middle' as const };
const signal = new AbortController().signal;

describe('the tool file', () => {
  it('loads classes, objects, known names and MCP servers', async () => {
    writeFileSync(
      join(folder, 'mcp.json'),
      JSON.stringify({ mcpServers: { counter: { command: process.execPath, args: [fixture('mcp-server.mjs')] } } }),
    );
    const file = yaml(`
tools:
  - class_name: ${fixture('weather.mjs')}#WeatherTool
    config: { type: native, adjective: Sunny }
    tool_schema:
      type: function
      function: { name: weather, description: Tells it, parameters: { type: object, properties: { city: { type: string } } } }
  - class_name: ${fixture('weather.mjs')}
  - class_name: verl.tools.gsm8k_tool.Gsm8kTool
    config: { type: native }
  - class_name: verl.tools.mcp_base_tool.MCPBaseTool
    config: { type: mcp, mcp: { mcp_servers_config_path: ./mcp.json, tool_selected_list: [count] } }
`);
    const { tools, close } = await loadTools(file);
    expect(tools.map(({ name }) => name)).toEqual(['weather', 'clock', 'calc_gsm8k_reward', 'count']);
    const box = new Toolbox(tools, 'i', { prompt: [], reward_model: { ground_truth: '72' } }, config);
    const call = (name: string, args = {}) => box.call({ id: 'c', name, arguments: args }, 1, signal);
    expect(await call('weather', { city: 'Rome' })).toMatchObject({
      status: 'ok',
      response: 'Sunny in Rome',
      reward: 0.1,
    });
    expect(await call('clock')).toMatchObject({ response: 'noon' });
    expect(await call('count', { by: 2 })).toMatchObject({ response: '2' });
    expect(await call('calc_gsm8k_reward', { answer: '71' })).toMatchObject({ reward: -0.05 });
    expect(await call('calc_gsm8k_reward', { answer: '72' })).toMatchObject({
      reward: 0,
      response: "Current parsed answer='#### 72' reward=1.0",
    });
    expect(await call('calc_gsm8k_reward', { answer: '72' })).toMatchObject({ reward: -0.05 });
    expect(await box.finalRewards(() => {})).toEqual({ weather: 1, calc_gsm8k_reward: 1 });
    await box.release(() => {});
    await close();
  });

  it.each([
    ['tools: [{ class_name: ./nowhere.js#X }]', /names \.\/nowhere\.js: there is no file/],
    [`tools: [{ class_name: '${fixture('weather.mjs')}#Weatehr' }]`, /has no export Weatehr; it has: .*WeatherTool/],
    [`tools: [{ class_name: '${fixture('weather.mjs')}#WeatherTool' }]`, /must give a tool/],
    ['tools: [{ class_name: x, config: { type: mcp } }]', /needs config\.mcp\.mcp_servers_config_path/],
    ['tools: [{ class: x }]', /class_name/],
    [
      `tools: [{ class_name: '${fixture('weather.mjs')}' }, { class_name: '${fixture('weather.mjs')}' }]`,
      /two tools are named "clock"/,
    ],
  ])('says what is wrong: %s', async (text, message) => {
    await expect(loadTools(yaml(text))).rejects.toThrow(message);
  });
});

describe('the interaction file', () => {
  it('names interactions after their classes and refuses two of one name', async () => {
    const entry = `{ class_name: '${fixture('weather.mjs')}#CoinFlipInteraction', config: { score: 0.5 } }`;
    const [coinFlip] = await loadInteractions(yaml(`interaction: [${entry}]`));
    expect(coinFlip!.name).toBe('coinflip');
    expect(await coinFlip!.generateResponse({}, [])).toMatchObject({ score: 0.5 });
    await expect(loadInteractions(yaml(`interaction: [${entry}, ${entry}]`))).rejects.toThrow(
      /two interactions are named "coinflip"/,
    );
    expect(defaultName('verl.interactions.gsm8k_interaction.Gsm8kInteraction')).toBe('gsm8k');
  });
});

describe('defineTool', () => {
  it('describes itself from the schema and checks with it', async () => {
    const tool = defineTool({
      name: 'greet',
      description: 'Greets',
      input: z.object({ name: z.string().describe('whom'), times: z.number().int().default(1) }),
      execute: ({ name, times }) => `hi ${name}`.repeat(times),
    });
    expect(tool.schema.function.parameters).toMatchObject({
      type: 'object',
      properties: { name: { type: 'string', description: 'whom' }, times: { type: 'integer', default: 1 } },
      required: ['name'],
    });
    expect(await tool.check!({ name: 'Ada' })).toEqual({ ok: true, value: { name: 'Ada', times: 1 } });
    expect(await tool.check!({ name: 3 })).toMatchObject({ ok: false, issues: [expect.stringMatching(/^name: /)] });
  });

  it('takes any Standard Schema, with its JSON Schema beside it', async () => {
    const even: StandardSchema<number> = {
      '~standard': {
        version: 1,
        vendor: 'by-hand',
        validate: (value) =>
          typeof value === 'number' && value % 2 === 0 ? { value } : { issues: [{ message: 'must be even' }] },
      },
    };
    const definition = { name: 'half', description: 'Halves', input: even, execute: (value: number) => value / 2 };
    expect(() => defineTool(definition)).toThrow(/by-hand schemas cannot describe themselves/);
    const tool = defineTool({ ...definition, parameters: { type: 'number' } });
    expect(await tool.check!(3)).toEqual({ ok: false, issues: ['must be even'] });
    expect(await tool.execute(4, { instanceId: '', row: { prompt: [] }, signal, kwargs: {}, state: undefined })).toBe(
      2,
    );
  });
});
