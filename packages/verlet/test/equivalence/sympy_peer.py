"""Scores the labelled pairs with sympy: one JSON line per pair {"equal": bool}, for comparison with our own engine.

sympy gets a fair chance: the usual clean-up of answer strings first, then LaTeX parsing, then `equals`/`simplify`,
with lists, tuples and equations taken apart. Each pair has a time limit.
"""
import json
import re
import signal
import sys

import sympy
from sympy.parsing.latex import parse_latex


class Timeout(Exception):
    pass


def ring(*_):
    raise Timeout()


signal.signal(signal.SIGALRM, ring)


def clean(text):
    text = text.strip().strip("$")
    text = re.sub(r"^\\boxed\{(.*)\}$", r"\1", text)
    for old, new in [("\\left", ""), ("\\right", ""), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\!", ""), ("\\,", ""),
                     ("^\\circ", ""), ("^{\\circ}", ""), ("\\%", ""), ("\\$", ""), ("{,}", ""), ("\\ ", " "), ("\\displaystyle", "")]:
        text = text.replace(old, new)
    text = re.sub(r"\\(?:text|mbox|textbf|mathrm)\{([^}]*)\}(\^\d)?$", r"\1", text).strip()
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d)\s*[a-zA-Z /]+$", "", text) if re.match(r"^[\d.\\]", text) else text
    return text.rstrip(".").strip()


def split(text):
    parts, depth, current = [], 0, ""
    for character in text:
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return parts + [current]


CONSTANTS = {sympy.Symbol("pi"): sympy.pi, sympy.Symbol("e"): sympy.E, sympy.Symbol("i"): sympy.I}


def parse(text):
    text = re.sub(r"\\(frac|sqrt)(\d)", r"\\\1{\2}", text)
    text = re.sub(r"(\\frac\{[^{}]*\})(\d)", r"\1{\2}", text)
    return parse_latex(text).subs(CONSTANTS)


def same_expression(left, right):
    if left.strip() == right.strip():
        return bool(left.strip())
    a, b = parse(left), parse(right)
    if isinstance(a, sympy.Eq) and isinstance(b, sympy.Eq):
        ratio = sympy.simplify((a.lhs - a.rhs) / (b.lhs - b.rhs))
        return not ratio.free_symbols and ratio != 0
    a, b = (x.rhs if isinstance(x, sympy.Eq) and x.lhs.is_Symbol else x for x in (a, b))
    return sympy.simplify(a - b) == 0


def same(left, right):
    a, b = clean(left), clean(right)
    if a.lower() == b.lower():
        return bool(a)
    brackets = []
    for text in (a, b):
        match = re.match(r"^(\\\{|[(\[])(.*)(\\\}|[)\]])$", text)
        brackets.append((match[1], match[3], match[2]) if match and len(split(match[2])) > 1 else ("", "", text))
    if brackets[0][:2] != brackets[1][:2]:
        return False
    items = [split(x[2]) for x in brackets]
    if len(items[0]) != len(items[1]):
        return False
    if brackets[0][0] in ("(", "["):
        return all(same_expression(x, y) for x, y in zip(*items))
    rest = list(items[1])
    for x in items[0]:
        found = next((y for y in rest if same_expression(x, y)), None)
        if found is None:
            return False
        rest.remove(found)
    return True


for pair in json.load(open(sys.argv[1])):
    signal.alarm(5)
    try:
        verdict = {"equal": bool(same(pair["prediction"], pair["reference"]))}
    except Timeout:
        verdict = {"equal": False, "failure": "timeout"}
    except BaseException as error:  # antlr and sympy raise almost anything on text they do not understand
        verdict = {"equal": False, "failure": type(error).__name__}
    finally:
        signal.alarm(0)
    print(json.dumps(verdict), flush=True)
