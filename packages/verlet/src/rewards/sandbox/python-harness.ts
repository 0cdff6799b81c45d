/**
 * Runs inside the interpreter that executes the program, in one of three modes: `script` (stdin to stdout), `serve` (load the
 * program, then answer calls of its functions) and `check` (run the tests with stand-ins for the program's names).
 * `receive()` and `send(text)` are the only door; the caller binds them to a pipe or to Pyodide's JavaScript side.
 * What is sent is plain data in tagged JSON (see `plain-value.ts`): nothing that could decide its own comparison.
 */
export const pythonHarness = String.raw`
import builtins as _builtins, io, json, sys, traceback, types

def _encode(value, remember, depth=0):
    if depth > 200:
        raise ValueError('value nested too deeply to leave the sandbox')
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -9007199254740991 <= value <= 9007199254740991 else {'i': hex(value)}
    if kind is float:
        return {'f': repr(value)}
    if kind is complex:
        return {'c': [repr(value.real), repr(value.imag)]}
    if kind is list:
        return [_encode(item, remember, depth + 1) for item in value]
    if kind is tuple:
        return {'t': [_encode(item, remember, depth + 1) for item in value]}
    if kind is set or kind is frozenset:
        return {'s': [_encode(item, remember, depth + 1) for item in value]}
    if kind is dict:
        return {'d': [[_encode(k, remember, depth + 1), _encode(v, remember, depth + 1)] for k, v in value.items()]}
    if kind is bytes or kind is bytearray:
        return {'b': value.hex()}
    if kind.__module__ == 'numpy' and hasattr(value, 'tolist'):
        return _encode(value.tolist(), remember, depth + 1)
    if isinstance(value, (list, tuple, dict, str, int, float)):
        for base in (list, tuple, dict, str, int, float):
            if isinstance(value, base):
                plain = base(base.__iter__(value)) if base in (list, tuple) else (dict(dict.items(value)) if base is dict else base.__str__(value) if base is str else base.__add__(value, 0))
                return _encode(plain, remember, depth + 1)
    if isinstance(value, types.GeneratorType) or kind in (range, type({}.keys()), type({}.values()), type({}.items()), map, filter, zip):
        items = []
        for item in value:
            items.append(_encode(item, remember, depth + 1))
            if len(items) > 1000000:
                raise ValueError('iterator too long to leave the sandbox')
        return items
    return {'h': remember(value), 'n': str(kind.__name__)}

def _decode(value, recall):
    kind = type(value)
    if kind is list:
        return [_decode(item, recall) for item in value]
    if kind is not dict:
        return value
    (tag, body), = [(k, v) for k, v in value.items() if k != 'n']
    if tag == 'i': return int(body, 16)
    if tag == 'f': return float(body)
    if tag == 'c': return complex(float(body[0]), float(body[1]))
    if tag == 't': return tuple(_decode(item, recall) for item in body)
    if tag == 's': return {_decode(item, recall) for item in body}
    if tag == 'd': return {_decode(k, recall): _decode(v, recall) for k, v in body}
    if tag == 'b': return bytes.fromhex(body)
    if tag == 'u': return None
    if tag == 'h': return recall(body, value.get('n'))
    raise ValueError('unknown tag ' + repr(tag))

def _main_module(code):
    module = types.ModuleType('__main__')
    module.__dict__['__builtins__'] = _builtins
    sys.modules['__main__'] = module
    sys.argv = ['main.py']
    exec(compile(code, 'main.py', 'exec'), module.__dict__)
    return module.__dict__

def _serve(code, receive, send):
    dumps, loads, objects = json.dumps, json.loads, []
    names = _main_module(code)
    def remember(value):
        objects.append(value)
        return len(objects) - 1
    def recall(handle, name):
        return objects[handle]
    def target(request):
        name = request['name']
        if request.get('h') is not None:
            return objects[request['h']] if name is None else getattr(objects[request['h']], name)
        if name in names:
            return names[name]
        if 'Solution' in names:
            return getattr(names['Solution'](), name)
        raise NameError('the program does not define ' + repr(name))
    send(dumps({
        'names': [name for name, value in names.items() if not name.startswith('__') and not isinstance(value, types.ModuleType)],
        'modules': [name for name, value in names.items() if isinstance(value, types.ModuleType)],
    }))
    while True:
        line = receive()
        if line is None:
            return
        request = loads(line)
        try:
            found = target(request)
            if request['do'] == 'get':
                reply = {'value': {'h': remember(found), 'n': 'function'} if callable(found) else _encode(found, remember)}
            else:
                args = _decode(request['args'], recall)
                kwargs = {k: _decode(v, recall) for k, v in request.get('kwargs', {}).items()}
                value = found(*args, **kwargs)
                reply = {'value': _encode(value, remember), 'args': [_encode(arg, remember) if type(arg) in (list, dict, set) else None for arg in args]}
        except SystemExit:
            raise
        except BaseException as error:
            traceback.print_exc()
            reply = {'raised': type(error).__name__, 'message': str(error)[:2000]}
        send(dumps(reply))

class _Remote:
    """Stands for something the program made. Equality is identity: the program has no say in a comparison."""
    __slots__ = ('_ask', '_handle', '_name')
    def __init__(self, ask, handle, name):
        object.__setattr__(self, '_ask', ask); object.__setattr__(self, '_handle', handle); object.__setattr__(self, '_name', name)
    def __call__(self, *args, **kwargs): return self._ask('call', self._handle, self._name, args, kwargs)
    def __getattr__(self, name):
        if name.startswith('__'): raise AttributeError(name)
        if self._handle is None:
            owner = self._ask('get', None, self._name)
            return getattr(owner, name)
        return self._ask('get', self._handle, name)
    def __len__(self): return self._dunder('__len__', int)
    def __getitem__(self, key): return self._ask('call', self._handle, '__getitem__', (key,))
    def __contains__(self, key): return self._dunder('__contains__', bool, key)
    def __iter__(self):
        iterator = self._ask('call', self._handle, '__iter__')
        if isinstance(iterator, list):
            yield from iterator
            return
        while True:
            try: yield self._ask('call', iterator._handle, '__next__')
            except StopIteration: return
    def __str__(self): return self._dunder('__str__', str)
    def __repr__(self): return self._dunder('__repr__', str)
    def _dunder(self, name, kind, *args):
        value = self._ask('call', self._handle, name, args)
        if type(value) is not kind: raise TypeError(name + ' returned ' + type(value).__name__)
        return value

def _check(tests, receive, send):
    introduction = json.loads(receive())
    def refuse(value):
        if type(value) is _Remote:
            if value._handle is None: raise TypeError('a function of the program cannot be passed back to it')
            return value._handle
        raise TypeError('a value of type ' + type(value).__name__ + ' cannot cross into the program')
    def recall(handle, name): return _Remote(ask, handle, None)
    def ask(do, handle, name, args=(), kwargs={}):
        send(json.dumps({'do': do, 'h': handle, 'name': name, 'args': [_encode(a, refuse) for a in args], 'kwargs': {k: _encode(v, refuse) for k, v in kwargs.items()}}))
        line = receive()
        if line is None: raise EOFError('the program ended before it answered ' + repr(name))
        reply = json.loads(line)
        if 'raised' in reply:
            kind = getattr(_builtins, reply['raised'], None)
            if not (isinstance(kind, type) and issubclass(kind, Exception)): kind = RuntimeError
            raise kind(str(reply.get('message')))
        for arg, after in zip(args, reply.get('args') or []):
            if after is None: continue
            after = _decode(after, recall)
            if type(arg) is list and type(after) is list: arg[:] = after
            elif type(arg) in (dict, set) and type(after) is type(arg): arg.clear(); arg.update(after)
        return _decode(reply['value'], recall)
    module = types.ModuleType('__main__')
    sys.modules['__main__'] = module
    space = module.__dict__
    space['__builtins__'] = _builtins
    # Tests often lean on the imports of the program. They get the real module of that name, never the program's.
    for name in introduction['modules']:
        if name in sys.stdlib_module_names: space[name] = __import__(name)
    for name in introduction['names']:
        if type(name) is str and not hasattr(_builtins, name): space[name] = _Remote(ask, None, name)
    exec(compile(tests, 'tests.py', 'exec'), space)
    send(json.dumps({'verdict': 'passed'}))

def _run(job, receive, send):
    """Returns the exit code. Never raises."""
    code = 0
    try:
        mode = job['mode']
        if mode == 'script': _main_module(job['code'])
        elif mode == 'serve': _serve(job['code'], receive, send)
        else: _check(job['code'], receive, send)
    except SystemExit as stop:
        if stop.code is None: code = 0
        elif type(stop.code) is int: code = stop.code & 255
        else:
            sys.stderr.write(str(stop.code) + '\n'); code = 1
        if job['mode'] != 'script': code = code or 1
    except BaseException:
        code = 1
        try: traceback.print_exc()
        except BaseException: pass
    try: sys.stdout.flush()
    except BaseException: code = code or 1
    try: sys.stderr.flush()
    except BaseException: pass
    return code
`;
