"""Logits by `transformers` (and `peft`) of folders that were saved elsewhere.

Reads jobs as JSON from stdin: [{"folder", "adapter"?, "input_ids": [[...], ...]}]; writes one list of rows of logits per job.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

answers = []
for job in json.load(sys.stdin):
    model, report = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    if job.get("adapter"):
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, job["adapter"])
    model.eval()
    with torch.no_grad():
        answers.append([model(torch.tensor([row])).logits[0].flatten().tolist() for row in job["input_ids"]])
json.dump(answers, sys.stdout)
