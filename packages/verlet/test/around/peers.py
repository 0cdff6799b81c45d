"""What transformers says. Reads a list of jobs, writes a list of answers; one process, since the import is what takes time."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer


def loss(job):
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
    value = model(input_ids=ids, attention_mask=attention, labels=labels).loss
    value.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    return {"loss": value.item(), "gradNorm": norm.item()}


def load(job):
    kind = AutoModelForSequenceClassification if job["kind"] == "reward" else AutoModelForCausalLM
    model, info = kind.from_pretrained(job["folder"], output_loading_info=True, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(job["folder"])
    with torch.no_grad():
        logits = model(torch.tensor([job["input_ids"]])).logits.float()
    return {
        "dtype": str(model.dtype),
        "missing": sorted(info["missing_keys"]),
        "unexpected": sorted(info["unexpected_keys"]),
        "values": (logits[0] if job["kind"] == "reward" else logits[0, -1]).tolist(),
        "chat": tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False),
    }


print(json.dumps([loss(job) if job["kind"] == "loss" else load(job) for job in json.load(sys.stdin)]))
