// What the small recipes share: a configuration for files that were just made, and a line of progress.
import path from 'node:path';
import { composeConfig } from 'verlet';

/** The configuration of a run in `folder`; later overrides win. */
export function configFor(files, folder, overrides = []) {
  const { config } = composeConfig({
    kind: 'ppo',
    overrides: [
      `data.train_files=${files.train}`,
      ...(files.test ? [`data.val_files=${files.test}`] : []),
      `actor_rollout_ref.model.path=${files.model}`,
      'trainer.resume_mode=disable',
      `trainer.default_local_dir=${folder}`,
      'trainer.project_name=recipes',
      `trainer.experiment_name=${path.basename(path.dirname(folder))}`,
      ...overrides,
    ],
  });
  return config;
}

/** Shows the SFT's steps: in place on a terminal, now and then elsewhere. */
export function progress(every = 50) {
  return (step, total, loss) => {
    const line = `     SFT step ${step}/${total}  loss ${loss.toFixed(3)}`;
    if (process.stdout.isTTY) process.stdout.write(`\r${line}${step === total ? '\n' : ''}`);
    else if (step % every === 0) console.log(line);
  };
}
