/**
 * The program inside the Python process. It keeps the real standard output for itself, so that a reward function may
 * print; it calls verl's and EasyR1's signatures with the fields they name.
 */
export const pythonRunner = String.raw`
import asyncio, importlib.util, inspect, json, math, os, sys, traceback

channel = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
os.dup2(2, 1)
sys.stdout = sys.stderr

try:  # Linux: die with the parent, even in the middle of an endless loop
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
except Exception:
    pass


def send(message):
    channel.write(json.dumps(message, ensure_ascii=False) + "\n")
    channel.flush()


def plain(value):
    if hasattr(value, "item") and not isinstance(value, (list, dict, str)) and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def load(path, name):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("custom_reward_module", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["custom_reward_module"] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise AttributeError(f"{path} has no function {name!r}; it has {', '.join(names) or 'none'}")
    return module, getattr(module, name)


def call(function, *positional, **named):
    result = function(*positional, **named)
    return asyncio.run(result) if inspect.isawaitable(result) else result


def main():
    path, name = sys.argv[1], sys.argv[2]
    module, function = load(path, name)
    parameters = inspect.signature(function).parameters
    style = getattr(module, "REWARD_TYPE", None)
    if style in ("batch", "sequential"):
        form = "easyr1-" + style
    elif "reward_inputs" in parameters:
        form = "easyr1-batch"
    elif "reward_input" in parameters:
        form = "easyr1-sequential"
    elif "solution_strs" in parameters or "data_sources" in parameters:
        form = "verl-batch"
    else:
        form = "verl-sequential"
    base = ["data_source", "solution_str", "ground_truth", "extra_info"]
    named = [key for key, parameter in parameters.items() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    send({"ready": True, "type": form.split("-")[1], "form": form, "wants": named})

    def verl(item, kwargs):
        fields = {key: item.get(key) for key in base if open_ended or key in named}
        fields.update({key: value for key, value in item.items() if key in named})
        return call(function, **{**fields, **kwargs})

    for line in sys.stdin:
        request = json.loads(line)
        items, kwargs = request["inputs"], request["kwargs"]
        try:
            if form == "easyr1-batch":
                results = call(function, items, **kwargs)
            elif form == "easyr1-sequential":
                results = [call(function, item, **kwargs) for item in items]
            elif form == "verl-batch":
                results = call(function, **{key + "s": [item.get(key) for item in items] for key in base}, **kwargs)
            else:
                results = [verl(item, kwargs) for item in items]
            send({"id": request["id"], "results": plain(list(results))})
        except BaseException as error:
            send({"id": request["id"], "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-2000:]})
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise


try:
    main()
except BaseException as error:
    send({"fatal": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-2000:]})
    sys.exit(1)
`;
