// npm run quickstart: a small policy learns to add two digits (modulo 10) from rewards alone, GRPO's way: several answers per
// question, the group's mean as baseline. Seconds on two cores.
import { AdamW, aten, manualSeed, nn, randint, scope } from '@verlet/torch';

const QUESTIONS = 64;
const ANSWERS = 8;
const STEPS = 600;

class Policy extends nn.Module {
  left = new nn.Embedding(10, 64);
  right = new nn.Embedding(10, 64);
  hidden = new nn.Linear(128, 128);
  head = new nn.Linear(128, 10);

  /** @returns log-probabilities of the ten answers [questions, 10] */
  forward(a, b) {
    const pair = aten.cat([this.left.forward(a), this.right.forward(b)], 1);
    return this.head.forward(this.hidden.forward(pair).relu()).logSoftmax(1);
  }
}

manualSeed(1);
const policy = new Policy();
const optimizer = new AdamW(policy.namedParameters(), { lr: 3e-3, weightDecay: 0 });
console.log(`step  reward  (of 1; guessing gives 0.1)`);
let reward = 0;
for (let step = 1; step <= STEPS; step++) {
  const mean = scope(() => {
    const a = randint(0, 10, [QUESTIONS], { dtype: 'int64' });
    const b = randint(0, 10, [QUESTIONS], { dtype: 'int64' });
    const logProbs = policy.forward(a, b);
    const answers = aten.multinomial(logProbs.detach().exp(), ANSWERS, true); // [questions, answers]
    const rewards = answers.eq(a.add(b).remainder(10).unsqueeze(1)).to('float32');
    const advantages = rewards.sub(rewards.mean(1, true));
    // A policy that is sure of a wrong answer never samples the right one: a little entropy keeps it asking.
    const entropy = logProbs.exp().mul(logProbs).sum(1).mean().neg();
    const gain = logProbs.gather(1, answers).mul(advantages).mean();
    gain.add(entropy.mul(0.02)).neg().backward();
    optimizer.step();
    optimizer.zeroGrad();
    return rewards.mean().item();
  });
  reward = 0.95 * reward + 0.05 * mean;
  if (step % 50 === 0)
    console.log(`${String(step).padStart(4)}  ${reward.toFixed(3)}  ${'█'.repeat(Math.round(reward * 40))}`);
}
if (reward < 0.8) {
  console.error('The reward did not rise as it should. Run: npm run doctor');
  process.exitCode = 1;
}
