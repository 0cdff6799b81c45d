"""A plain transformers training step on random weights: forward, backward, fused AdamW."""
import json
import sys
import time
import warnings

import torch
from transformers import AutoModelForCausalLM, Qwen2Config
from transformers.utils import logging

warnings.filterwarnings("ignore")
logging.set_verbosity_error()
settings = json.loads(sys.argv[1])
config = {k: v for k, v in settings["config"].items() if k != "model_type"}
device, rows, length = settings["device"], settings["rows"], settings["length"]
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(Qwen2Config(**config, use_cache=False), dtype=torch.bfloat16, attn_implementation="sdpa").to(device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
ids = torch.randint(0, config["vocab_size"], (rows, length), device=device)
torch.cuda.reset_peak_memory_stats()


def times(count, step):
    seconds = []
    for _ in range(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        if step:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return sorted(seconds)[len(seconds) // 2]


times(2, True)
seconds = times(settings.get("repeats", 5), True)
torch.cuda.synchronize()
start = time.perf_counter()
model(input_ids=ids, labels=ids).loss.backward()
optimizer.step()
optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
whole = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "wholeSeconds": whole, "peakBytes": torch.cuda.max_memory_allocated(), "tokensPerSecond": rows * length / seconds}))
