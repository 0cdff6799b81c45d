// Makes what the first run needs, without a download: prompts, conversations to imitate, and a tiny model that knows nothing.
// Once you have your own data and model, name them in sft.yaml and run.yaml and delete this file.
import { mkdir, writeFile } from 'node:fs/promises';
import { manualSeed } from '@verlet/torch';
import { closedVocabulary, createCausalLM, saveCausalLM, writeParquet } from 'verlet';

const largest = 19;
const question = (a, b) => `What is ${a} * ${b}?`;
const toolCall = (a, b) => `<tool_call>{"name": "calculator", "arguments": {"expression": "${a}*${b}"}}</tool_call>`;
const template =
  "{% for message in messages %}<|im_start|>{{ message.role + ' ' + message.content }}<|im_end|>{% endfor %}" +
  '{% if add_generation_prompt %}<|im_start|>assistant {% endif %}';

/** Numbers below `below`, the same on every machine (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below);
  };
}

/** At first the tool is shown, later mostly guesses: the model can do both, and has to find out which of them pays. */
function conversation(draw, progress) {
  const [a, b] = [2 + draw(largest - 1), 2 + draw(largest - 1)];
  const user = { role: 'user', content: question(a, b) };
  const usesTool = progress < 0.75 || draw(5) === 0;
  if (!usesTool) return [user, { role: 'assistant', content: `#### ${4 + draw(largest ** 2 - 3)}` }];
  return [
    user,
    { role: 'assistant', content: toolCall(a, b) },
    { role: 'tool', content: String(a * b) },
    { role: 'assistant', content: `#### ${a * b}` },
  ];
}

export async function make({ conversations = 3840, seed = 1 } = {}) {
  await mkdir('data', { recursive: true });
  const draw = generator(seed);
  const pairs = [];
  for (let a = 2; a <= largest; a++) for (let b = 2; b <= largest; b++) pairs.push([a, b]);
  for (let k = pairs.length - 1; k > 0; k--) {
    const other = draw(k + 1);
    [pairs[k], pairs[other]] = [pairs[other], pairs[k]];
  }
  const rows = (part, split) =>
    part.map(([a, b], index) => ({
      data_source: 'products',
      agent_name: 'tool_agent',
      prompt: [{ role: 'user', content: question(a, b) }],
      reward_model: { style: 'rule', ground_truth: String(a * b) },
      extra_info: { split, index },
    }));
  const held = Math.floor(pairs.length / 8);
  await writeParquet('data/train.parquet', rows(pairs.slice(held), 'train'));
  await writeParquet('data/test.parquet', rows(pairs.slice(0, held), 'test'));
  const lines = Array.from({ length: conversations }, (_, k) =>
    JSON.stringify({ messages: conversation(draw, k / conversations) }),
  );
  await writeFile('data/sft.jsonl', `${lines.join('\n')}\n`);

  const texts = pairs.flatMap(([a, b]) => [`user ${question(a, b)}`, toolCall(a, b), `tool ${a * b}`, `#### ${a * b}`]);
  const tokenizer = await closedVocabulary([...texts, 'assistant '], {
    folder: 'models/blank',
    spelling: 'characters',
    chatTemplate: template,
  });
  manualSeed(seed);
  const model = createCausalLM({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    hidden_size: 64,
    intermediate_size: 192,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    vocab_size: Math.ceil(tokenizer.vocabSize / 8) * 8,
    max_position_embeddings: 512,
    initializer_range: 0.1,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: true,
    hidden_act: 'silu',
    eos_token_id: tokenizer.eosTokenId,
    bos_token_id: null,
    pad_token_id: tokenizer.padTokenId,
  });
  await saveCausalLM(model, 'models/blank');
  model.dispose();
}

if (import.meta.filename === process.argv[1]) {
  await make();
  console.log('data/ and models/blank are made; next: npm run sft');
}
