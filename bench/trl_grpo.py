"""One GRPO step of TRL on the model and prompts that bench/grpo.mjs made; prints a JSON line with seconds per step."""
import json
import os
import sys
import tempfile
import time

model_path, parquet, prompts, samples, new_tokens, steps, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:8])
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch

torch.set_num_threads(threads)
import pyarrow.parquet
import transformers
import trl
from datasets import Dataset

transformers.logging.set_verbosity_error()
tokenizer = transformers.AutoTokenizer.from_pretrained(model_path)
rows = pyarrow.parquet.read_table(parquet).to_pylist()
dataset = Dataset.from_list([{"prompt": [{"role": m["role"], "content": m["content"]} for m in row["prompt"]]} for row in rows])


class Clock(transformers.TrainerCallback):
    def __init__(self):
        self.ends = [time.perf_counter()]

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def reward(completions, **kwargs):
    return [len(c[0]["content"]) / 300 for c in completions]


config = trl.GRPOConfig(
    output_dir=tempfile.mkdtemp(),
    use_cpu=True,
    bf16=False,
    fp16=False,
    per_device_train_batch_size=prompts * samples,
    gradient_accumulation_steps=1,
    num_generations=samples,
    max_completion_length=new_tokens,
    generation_kwargs={"min_new_tokens": new_tokens},
    gradient_checkpointing=False,
    temperature=1.0,
    beta=0.0,
    learning_rate=1e-6,
    max_steps=steps + 1,
    logging_strategy="no",
    save_strategy="no",
    report_to=[],
    shuffle_dataset=False,
)
model = transformers.AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
clock = Clock()
trainer = trl.GRPOTrainer(model=model, reward_funcs=reward, args=config, train_dataset=dataset, processing_class=tokenizer, callbacks=[clock])
clock.ends = [time.perf_counter()]
trainer.train()
times = sorted(b - a for a, b in zip(clock.ends[1:], clock.ends[2:]))
print(json.dumps({"version": trl.__version__, "step": times[len(times) // 2], "steps": times}))
