import { COLORS, drawChart, short, smoothed } from './chart.mjs';

const $ = (id) => document.getElementById(id);
const PAGE_SIZE = 10;
/** What is drawn before anyone asks for something else. */
const FIRST =
  /^(critic\/score\/mean|val-core\/|train\/|actor\/(entropy|ppo_kl|kl_loss|grad_norm|pg_loss|pg_clipfrac)$|response_length\/(mean|clip_ratio)|perf\/throughput|timing_s\/step$|guard\/|training\/rollout_probs_diff_max)/;

let runs = [];
/** Per run: step -> metrics. */
const history = [];
let view = 'curves';
let offset = 0;

runs = await (await fetch('/api/runs')).json();
for (const run of runs) {
  history.push(new Map());
  const label = document.createElement('span');
  const dot = document.createElement('i');
  dot.style.background = COLORS[run.id % COLORS.length];
  label.append(dot, run.name);
  label.title = run.folder;
  $('runs').append(label);
  $('run').append(new Option(run.name, run.id));
}

const events = new EventSource('/api/events');
events.addEventListener('records', ({ data }) => {
  const { run, reset, records } = JSON.parse(data);
  if (reset) history[run].clear();
  for (const record of records) history[run].set(record.step, { ...history[run].get(record.step), ...record.data });
  $('state').textContent = `step ${Math.max(0, ...history.flatMap((steps) => [...steps.keys()]))}`;
  soon();
});
events.addEventListener('error', () => {
  $('state').textContent = 'the server is away';
});

let waiting = false;
/** Many records come at once: they are drawn once. */
function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (view === 'curves') drawCurves();
  });
}

function drawCurves() {
  const wanted = $('filter').value.trim().toLowerCase();
  const names = new Set(history.flatMap((steps) => [...steps.values()].flatMap((metrics) => Object.keys(metrics))));
  const shown = [...names].filter((name) => (wanted ? name.toLowerCase().includes(wanted) : FIRST.test(name))).sort();
  const weight = Number($('smooth').value);
  const figures = shown.slice(0, 60).map((name) => {
    const series = history.map((steps, run) => {
      const points = [...steps]
        .filter(([, metrics]) => name in metrics)
        .map(([step, metrics]) => [step, metrics[name]]);
      points.sort((a, b) => a[0] - b[0]);
      return { color: COLORS[run % COLORS.length], points: smoothed(points, weight) };
    });
    const figure = document.createElement('figure');
    const caption = document.createElement('figcaption');
    const last = series.flatMap(({ points }) => points.slice(-1)).map(([, value]) => short(value));
    caption.textContent = `${name}  ${last.join('  ')}`;
    figure.append(caption, drawChart(series));
    return figure;
  });
  $('charts').replaceChildren(...figures);
}

async function drawDumps() {
  runs = await (await fetch('/api/runs')).json();
  const run = runs[Number($('run').value)] ?? runs[0];
  const steps = run[view];
  const chosen = $('step').value;
  $('step').replaceChildren(...steps.map((step) => new Option(step, step)));
  $('step').value = steps.map(String).includes(chosen) ? chosen : String(steps.at(-1) ?? '');
  if (steps.length === 0) {
    const key = view === 'rollouts' ? 'trainer.rollout_data_dir' : 'trainer.validation_data_dir';
    $('rows').textContent = `This run has no dumps. Runs with ${key}=FOLDER have them.`;
    $('where').textContent = '';
    return;
  }
  const url = `/api/runs/${run.id}/${view}/${$('step').value}?offset=${offset}&limit=${PAGE_SIZE}`;
  const { rows, total } = await (await fetch(url)).json();
  $('where').textContent = `${total ? offset + 1 : 0}–${Math.min(offset + PAGE_SIZE, total)} of ${total}`;
  $('before').disabled = offset === 0;
  $('after').disabled = offset + PAGE_SIZE >= total;
  $('rows').replaceChildren(...rows.map(drawRow));
}

function drawRow(row) {
  const article = document.createElement('article');
  const heading = document.createElement('h2');
  const facts = [
    `score ${short(row.score)}`,
    row.data_source ?? row.dataSource,
    (row.gts ?? row.groundTruth) ? `expected ${row.gts ?? row.groundTruth}` : '',
    row.end_reason,
    row.num_turns ? `${row.num_turns} turns` : '',
    row.uid,
  ];
  heading.textContent = facts.filter(Boolean).join(' · ');
  const prompt = document.createElement('pre');
  prompt.textContent = row.input ?? row.prompt ?? '';
  const answer = document.createElement('pre');
  if (row.tokens) answer.append(...row.tokens.map((text, k) => drawToken(row, text, k)));
  else answer.textContent = row.output ?? row.response ?? '';
  article.append(heading, prompt, answer);
  return article;
}

function drawToken(row, text, k) {
  const token = document.createElement('span');
  token.className = 'token';
  token.textContent = text;
  const sampled = row.response_mask?.[k] === 1;
  const logProb = row.rollout_log_probs?.[k];
  const trained = row.old_log_probs?.[k];
  const advantage = row.advantages?.[k];
  const lines = [
    `token ${row.response_ids?.[k]}, position ${k}`,
    sampled ? 'sampled by the policy' : 'not sampled: masked',
  ];
  if (sampled && logProb !== undefined)
    lines.push(`log-probability ${logProb} (${(100 * Math.exp(logProb)).toFixed(1)}%)`);
  if (sampled && trained !== undefined) lines.push(`in training ${trained}`);
  if (sampled && advantage !== undefined) lines.push(`advantage ${advantage}`);
  token.title = lines.join('\n');
  if (!sampled) token.classList.add('injected');
  else token.style.background = shade({ logProb, trained, advantage });
  return token;
}

function shade({ logProb, trained, advantage }) {
  const mode = $('colour').value;
  const mixed = (red, green, blue, share) => `rgba(${red}, ${green}, ${blue}, ${Math.min(1, share).toFixed(2)})`;
  if (mode === 'logprob' && logProb !== undefined) return mixed(220, 38, 38, (1 - Math.exp(logProb)) * 0.7);
  if (mode === 'mismatch' && logProb !== undefined && trained !== undefined)
    return mixed(124, 58, 237, Math.abs(Math.exp(logProb) - Math.exp(trained)) * 10);
  if (mode === 'advantage' && advantage !== undefined)
    return advantage >= 0 ? mixed(5, 150, 105, advantage * 0.35) : mixed(220, 38, 38, -advantage * 0.35);
  return '';
}

for (const button of document.querySelectorAll('nav button'))
  button.addEventListener('click', () => {
    view = button.dataset.view;
    offset = 0;
    for (const other of document.querySelectorAll('nav button')) other.classList.toggle('chosen', other === button);
    $('curves').hidden = view !== 'curves';
    $('dumps').hidden = view === 'curves';
    if (view === 'curves') drawCurves();
    else drawDumps();
  });
$('filter').addEventListener('input', soon);
$('smooth').addEventListener('input', soon);
$('colour').addEventListener('change', drawDumps);
for (const id of ['run', 'step'])
  $(id).addEventListener('change', () => {
    offset = 0;
    drawDumps();
  });
$('before').addEventListener('click', () => {
  offset = Math.max(0, offset - PAGE_SIZE);
  drawDumps();
});
$('after').addEventListener('click', () => {
  offset += PAGE_SIZE;
  drawDumps();
});
