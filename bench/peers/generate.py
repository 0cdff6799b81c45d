"""transformers' generate on random weights: tokens per second of decoding a batch."""
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
device, batch, prompt, new = settings["device"], settings["batch"], settings["prompt"], settings["new"]
torch.manual_seed(0)
if settings.get("threads"):
    torch.set_num_threads(settings["threads"])
dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
model = AutoModelForCausalLM.from_config(Qwen2Config(**config), dtype=dtype, attn_implementation="sdpa").to(device).eval()
ids = torch.randint(0, config["vocab_size"], (batch, prompt), device=device)
ones = torch.ones_like(ids)


def generate(count):
    with torch.no_grad():
        return model.generate(
            ids, attention_mask=ones, max_new_tokens=count, min_new_tokens=count, do_sample=True, temperature=1.0, top_k=0, pad_token_id=0
        )


def clock():
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


generate(4)
best = None
for _ in range(settings.get("repeats", 1)):
    start = clock()
    out = generate(new)
    seconds = clock() - start
    assert out.shape[1] == prompt + new
    best = seconds if best is None else min(best, seconds)
print(json.dumps({"seconds": best, "tokensPerSecond": batch * new / best}))
