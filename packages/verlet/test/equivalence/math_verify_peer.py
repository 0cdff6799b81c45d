"""Scores the labelled pairs with math-verify (pip install math-verify): one JSON line per pair {"equal": bool}."""
import json
import logging
import sys

from math_verify import parse, verify

logging.disable(logging.CRITICAL)


def read(text):
    # As a model's final answer comes: in a box. Without any mark math-verify would look for a number anywhere in the text.
    return parse(text if "\\boxed" in text else "\\boxed{" + text.strip().strip("$") + "}")


for pair in json.load(open(sys.argv[1])):
    try:
        verdict = {"equal": bool(verify(read(pair["reference"]), read(pair["prediction"])))}
    except Exception as error:
        verdict = {"equal": False, "failure": type(error).__name__}
    print(json.dumps(verdict), flush=True)
