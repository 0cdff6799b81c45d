"""Losses as transformers computes them. Reads {folder, examples: [{tokenIds, lossMask}]}, writes {loss, gradNorm}."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

job = json.load(sys.stdin)
model = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32)
longest = max(len(example["tokenIds"]) for example in job["examples"])
ids = torch.zeros(len(job["examples"]), longest, dtype=torch.long)
labels = torch.full_like(ids, -100)
attention = torch.zeros_like(ids)
for row, example in enumerate(job["examples"]):
    size = len(example["tokenIds"])
    tokens = torch.tensor(example["tokenIds"])
    ids[row, :size] = tokens
    attention[row, :size] = 1
    labels[row, :size] = torch.where(torch.tensor(example["lossMask"]) == 1, tokens, -100)
loss = model(input_ids=ids, attention_mask=attention, labels=labels).loss
loss.backward()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
print(json.dumps({"loss": loss.item(), "gradNorm": norm.item()}))
