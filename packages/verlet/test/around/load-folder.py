"""Loads an exported folder. Reads {folder, kind, input_ids}, writes {dtype, shards, values}."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

job = json.load(sys.stdin)
kind = AutoModelForSequenceClassification if job.get("kind") == "reward" else AutoModelForCausalLM
model, info = kind.from_pretrained(job["folder"], output_loading_info=True)
tokenizer = AutoTokenizer.from_pretrained(job["folder"])
with torch.no_grad():
    logits = model(torch.tensor([job["input_ids"]])).logits.float()
print(
    json.dumps(
        {
            "dtype": str(model.dtype),
            "missing": sorted(info["missing_keys"]),
            "unexpected": sorted(info["unexpected_keys"]),
            "values": (logits[0] if job.get("kind") == "reward" else logits[0, -1]).tolist(),
            "text": tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False),
        }
    )
)
