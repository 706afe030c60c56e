"""What programs of `backward_programs` read in their backward.

A state has a title, definitions, and the lines `? what is read`, `+ how it is changed`, `- how it is changed back`.
"""

from __future__ import annotations

from typing import NamedTuple

READS = """
g.is_contiguous()
g.stride(0) if g.dim() else 0
sum(g.stride())
g[..., :1].is_contiguous()
g.contiguous() is g
g.t().is_contiguous() if g.dim() == 2 else 0
(g * x).is_contiguous()
g.clone().is_contiguous()
sum(torch.empty_like(g).stride())
g.reshape(-1)._base is not None
g.flatten().data_ptr() == g.data_ptr()
g.storage_offset()
g.untyped_storage().size()
g._is_view()
g._base is None
g.is_contiguous(memory_format=torch.channels_last)
g.view(-1).numel()
g.is_set_to(g)
g.expand_as(x).is_contiguous()
g.to(torch.float64).is_contiguous()
sum((g @ g.mT).stride()) if g.dim() > 1 else 0
torch._debug_has_internal_overlap(g)
g.T.sum(0).is_contiguous()
sum(g.sum(-1, keepdim=True).stride()) if g.dim() else 1
torch.stack([g, g]).is_contiguous()
g.nonzero().shape[1]
g.detach().numpy().strides[0] if g.dim() else 0
g.requires_grad
g.is_leaf
g.grad_fn is None
(g * x).requires_grad
(g * x).is_leaf
(g * x).grad_fn is None
x.requires_grad
x.is_leaf
(x * 2).requires_grad
g.detach().requires_grad
torch.zeros_like(g).requires_grad
g.new_zeros(2).is_leaf
x.grad_fn is None
g.retains_grad
x.grad is None
(x * 2).grad_fn is None
torch.zeros_like(x).copy_(g).requires_grad
torch._C._functions is None
g.grad is None
x.retains_grad
torch.is_grad_enabled()
torch.is_inference_mode_enabled()
torch.is_autocast_enabled('cpu')
torch.is_anomaly_enabled()
(x @ x.mT).dtype is torch.bfloat16
g.is_inference()
type(g) is torch.Tensor
g.float() is g
isinstance(x, torch.nn.Parameter)
g is x
getattr(g, 'tag', 0)
g.layout is torch.strided
g.is_neg()
(g * x).is_inference()
type(g * x) is torch.Tensor
g.dtype is x.dtype
g.device.type == 'cpu'
g.is_sparse
g.numel()
g.dim()
len(g.shape)
hash(g) == hash(g)
g._version
x._version
(g * 2)._version
g.detach()._version
g.add_(0)._version
g.view_as(g)._version
""".strip().splitlines()
"""Numbers and booleans that are read of a gradient ``g``, or of a tensor ``x`` of the forward."""

_STATES = """
= a global
SCALE = 2
? SCALE
+ global SCALE; SCALE = 5
- global SCALE; SCALE = 2
= an item
TABLE = {'a': 2}
? TABLE['a']
+ TABLE['a'] = 5
- TABLE['a'] = 2
= an item of a list
ITEMS = [1, 2]
? ITEMS[-1]
+ ITEMS.append(7)
- ITEMS[2:] = []
= a length
ITEMS = [1, 2]
? len(ITEMS)
+ ITEMS.append(7)
- ITEMS[2:] = []
= an attribute
class Thing: pass
THING = Thing()
THING.a = 2
? THING.a
+ THING.a = 5
- THING.a = 2
= a class's
class Thing: a = 2
? Thing.a
+ Thing.a = 5
- Thing.a = 2
= a property
class Thing:
    a = 2
    p = property(lambda self: self.a)
THING = Thing()
? THING.p
+ THING.a = 5
- THING.a = 2
= a method
class Thing:
    a = 2
    def m(self): return self.a
THING = Thing()
? THING.m()
+ THING.a = 5
- THING.a = 2
= training
MODEL = torch.nn.Dropout(0.0)
? MODEL.training
+ MODEL.eval()
- MODEL.train()
= a cell
def cell():
    v = 2
    def get(): return v
    def put(n):
        nonlocal v
        v = n
    return get, put
get, put = cell()
? get()
+ put(5)
- put(2)
= code
def helper(): return 2
def other(): return 5
CODE = helper.__code__
? helper()
+ helper.__code__ = other.__code__
- helper.__code__ = CODE
= defaults
def helper(n=2): return n
? helper()
+ helper.__defaults__ = (5,)
- helper.__defaults__ = (2,)
= keyword defaults
def helper(*, n=2): return n
? helper()
+ helper.__kwdefaults__ = {'n': 5}
- helper.__kwdefaults__ = {'n': 2}
= a function's attribute
def helper(): pass
helper.n = 2
? helper.n
+ helper.n = 5
- helper.n = 2
= a patched helper
def first(): return 2
def other(): return 5
helper = first
? helper()
+ global helper; helper = other
- global helper; helper = first
= a cached function
TABLE = {3: 2}
@functools.lru_cache
def helper(n): return TABLE[n]
? helper(3)
+ TABLE[3] = 5; helper.cache_clear()
- TABLE[3] = 2; helper.cache_clear()
= a registration
def made():
    global Sign, Plain
    class Sign(abc.ABC): pass
    class Plain: pass
made()
? issubclass(Plain, Sign)
+ Sign.register(Plain)
- made()
= a dispatch
def made():
    global helper
    @functools.singledispatch
    def helper(n): return 2
made()
? helper(1)
+ helper.register(int, lambda n: 5)
- made()
= the environment
? len(os.environ.get('A_SETTING', ''))
+ os.environ['A_SETTING'] = 'abc'
- os.environ.pop('A_SETTING', None)
= os.getenv
? len(os.getenv('A_SETTING', ''))
+ os.environ['A_SETTING'] = 'abc'
- os.environ.pop('A_SETTING', None)
= a context variable
VARIABLE = contextvars.ContextVar('v')
VARIABLE.set(2)
? VARIABLE.get()
+ VARIABLE.set(5)
- VARIABLE.set(2)
= a thread's
LOCAL = threading.local()
LOCAL.a = 2
? LOCAL.a
+ LOCAL.a = 5
- LOCAL.a = 2
= recursion limit
LIMIT = sys.getrecursionlimit()
? sys.getrecursionlimit()
+ sys.setrecursionlimit(LIMIT + 7)
- sys.setrecursionlimit(LIMIT)
= garbage collection
? gc.isenabled()
+ gc.disable()
- gc.enable()
= a counter
COUNT = itertools.count()
? next(COUNT)
+ next(COUNT)
- global COUNT; COUNT = itertools.count()
= random
? random.random()
+ random.seed(5)
- random.seed(2)
= decimal
? decimal.getcontext().prec
+ decimal.getcontext().prec = 30
- decimal.getcontext().prec = 28
= a logger
LOGGER = logging.getLogger('a.b')
LOGGER.setLevel(30)
? LOGGER.isEnabledFor(10)
+ LOGGER.setLevel(10)
- LOGGER.setLevel(30)
= a module in sys.modules
? 'a_module' in sys.modules
+ sys.modules['a_module'] = sys
- sys.modules.pop('a_module', None)
= a weak reference
class Thing: pass
def made():
    global THING, REFERENCE
    THING = Thing()
    REFERENCE = weakref.ref(THING)
made()
? REFERENCE() is None
+ global THING; THING = None
- made()
= default dtype
? torch.get_default_dtype() == torch.float64
+ torch.set_default_dtype(torch.float64)
- torch.set_default_dtype(torch.float32)
= dtype of a new tensor
? torch.ones(2).dtype is torch.float64
+ torch.set_default_dtype(torch.float64)
- torch.set_default_dtype(torch.float32)
= dtype of a number's
? torch.tensor(1.5).dtype is torch.float64
+ torch.set_default_dtype(torch.float64)
- torch.set_default_dtype(torch.float32)
= dtype of a quotient
? (torch.ones(2, dtype=torch.int32) / 2).dtype is torch.float64
+ torch.set_default_dtype(torch.float64)
- torch.set_default_dtype(torch.float32)
= result_type
? torch.result_type(torch.ones(2, dtype=torch.int32), 1.5) is torch.float64
+ torch.set_default_dtype(torch.float64)
- torch.set_default_dtype(torch.float32)
= deterministic
? torch.are_deterministic_algorithms_enabled()
+ torch.use_deterministic_algorithms(True)
- torch.use_deterministic_algorithms(False)
= fill
? torch.utils.deterministic.fill_uninitialized_memory
+ torch.utils.deterministic.fill_uninitialized_memory = False
- torch.utils.deterministic.fill_uninitialized_memory = True
= threads
? torch.get_num_threads()
+ torch.set_num_threads(2)
- torch.set_num_threads(1)
= precision
? torch.get_float32_matmul_precision() == 'high'
+ torch.set_float32_matmul_precision('high')
- torch.set_float32_matmul_precision('highest')
= benchmark
? torch.backends.cudnn.benchmark
+ torch.backends.cudnn.benchmark = True
- torch.backends.cudnn.benchmark = False
= tf32
? torch.backends.cuda.matmul.allow_tf32
+ torch.backends.cuda.matmul.allow_tf32 = True
- torch.backends.cuda.matmul.allow_tf32 = False
= flash
? torch.backends.cuda.flash_sdp_enabled()
+ torch.backends.cuda.enable_flash_sdp(False)
- torch.backends.cuda.enable_flash_sdp(True)
= seed
? torch.initial_seed()
+ torch.manual_seed(7)
- torch.manual_seed(2)
= mkldnn
? torch.backends.mkldnn.enabled
+ torch.backends.mkldnn.enabled = False
- torch.backends.mkldnn.enabled = True
= warn always
? torch.is_warn_always_enabled()
+ torch.set_warn_always(True)
- torch.set_warn_always(False)
= a future setting
? torch.__future__.get_overwrite_module_params_on_conversion()
+ torch.__future__.set_overwrite_module_params_on_conversion(True)
- torch.__future__.set_overwrite_module_params_on_conversion(False)
= warnings' filters
? len(warnings.filters)
+ warnings.simplefilter('error')
- warnings.resetwarnings()
= the path
? len(sys.path)
+ sys.path.append('a')
- sys.path[:] = [each for each in sys.path if each != 'a']
= a trace function
? sys.gettrace() is None
+ sys.settrace(lambda *_: None)
- sys.settrace(None)
= a switch interval
? sys.getswitchinterval() == 0.5
+ sys.setswitchinterval(0.5)
- sys.setswitchinterval(0.005)
= a time
LATER = 0
? time.time() > LATER
+ global LATER; LATER = time.time() - 1
- global LATER; LATER = time.time() + 100
= a directory
PLACE = os.getcwd()
? os.getcwd() == '/'
+ os.chdir('/')
- os.chdir(PLACE)
= a file
FILE = '/tmp/a_file_of_a_backward'
? os.path.exists(FILE)
+ open(FILE, 'w').close()
- os.path.exists(FILE) and os.remove(FILE)
= a checkpoint's device
? torch.utils.checkpoint.DefaultDeviceType.get_device_type() == 'cpu'
+ torch.utils.checkpoint.DefaultDeviceType.set_device_type('cpu')
- torch.utils.checkpoint.DefaultDeviceType.set_device_type('cuda')
= print options
? torch._tensor_str.PRINT_OPTS.precision
+ torch.set_printoptions(precision=2)
- torch.set_printoptions(precision=4)
= a text
? len(str(torch.ones(1) / 3))
+ torch.set_printoptions(precision=2)
- torch.set_printoptions(precision=4)
= the default device
? torch.get_default_device().type == 'meta'
+ torch.set_default_device('meta')
- torch.set_default_device(None)
= a new tensor's device
? torch.ones(2).device.type == 'meta'
+ torch.set_default_device('meta')
- torch.set_default_device(None)
= anomaly mode
? torch.is_anomaly_enabled()
+ torch.autograd.set_detect_anomaly(True)
- torch.autograd.set_detect_anomaly(False)
= autocast
? torch.is_autocast_enabled('cpu')
+ torch.set_autocast_enabled('cpu', True)
- torch.set_autocast_enabled('cpu', False)
= autocast's dtype
? (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
+ torch.set_autocast_enabled('cpu', True)
- torch.set_autocast_enabled('cpu', False)
= flushing
? (torch.ones(1) * 1e-40).sum() == 0
+ torch.set_flush_denormal(True)
- torch.set_flush_denormal(False)
= an enumeration's attribute
class Kind(enum.Enum):
    A = 2
Kind.A.n = 2
? Kind.A.n
+ Kind.A.n = 5
- Kind.A.n = 2
= a named tuple's item
PAIR = collections.namedtuple('Pair', 'x')([2])
? PAIR.x[0]
+ PAIR.x[0] = 5
- PAIR.x[0] = 2
= a frozen dataclass's
@dataclasses.dataclass(frozen=True)
class Data:
    x: int
DATA = Data(2)
? DATA.x
+ object.__setattr__(DATA, 'x', 5)
- object.__setattr__(DATA, 'x', 2)
= slots
class Thing: __slots__ = ('a',)
THING = Thing()
THING.a = 2
? THING.a
+ THING.a = 5
- THING.a = 2
= a class replaced
class Thing: a = 2
class Other: a = 5
THING = Thing()
? THING.a
+ THING.__class__ = Other
- THING.__class__ = Thing
= bases
class Base: a = 2
class Other: a = 5
class Thing(Base): pass
? Thing.a
+ Thing.__bases__ = (Other,)
- Thing.__bases__ = (Base,)
= a method replaced
class Thing: pass
Thing.m = lambda self: 2
THING = Thing()
? THING.m()
+ Thing.m = lambda self: 5
- Thing.m = lambda self: 2
= a special method
class Thing: pass
Thing.__len__ = lambda self: 2
THING = Thing()
? len(THING)
+ Thing.__len__ = lambda self: 5
- Thing.__len__ = lambda self: 2
= a static method
class Thing: pass
Thing.m = staticmethod(lambda: 2)
? Thing.m()
+ Thing.m = staticmethod(lambda: 5)
- Thing.m = staticmethod(lambda: 2)
= a partial
def inner(n): return n
helper = functools.partial(inner, n=2)
? helper()
+ helper.keywords['n'] = 5
- helper.keywords['n'] = 2
= a wrapper
def inner(n=2): return n
@functools.wraps(inner)
def helper(): return inner()
? helper()
+ helper.__wrapped__.__defaults__ = (5,)
- helper.__wrapped__.__defaults__ = (2,)
= a generator
GENERATOR = iter(range(9))
? next(GENERATOR)
+ next(GENERATOR)
- global GENERATOR; GENERATOR = iter(range(9))
= a module's buffer list
MODEL = torch.nn.Identity()
? len(list(MODEL.buffers()))
+ MODEL.register_buffer('b', torch.ones(1))
- MODEL._buffers.pop('b', None)
= a module's hook
MODEL = torch.nn.Identity()
HANDLES = []
? MODEL(X).flatten()[0]
+ HANDLES.append(MODEL.register_forward_hook(lambda m, given, y: y * 3))
- [each.remove() for each in HANDLES]
= a module's dropout
MODEL = torch.nn.Dropout(0.0)
? MODEL(X).sum()
+ MODEL.p = 1.0
- MODEL.p = 0.0
= a parameter
MODEL = torch.nn.Linear(1, 1)
? MODEL.weight.sum()
+ MODEL.weight = torch.nn.Parameter(torch.full((1, 1), 5.0))
- MODEL.weight = torch.nn.Parameter(torch.full((1, 1), 2.0))
= history of a global tensor
W = torch.ones(2)
? W.requires_grad
+ W.requires_grad_()
- W.requires_grad_(False)
= size of a global tensor
W = torch.ones(2)
? W.shape[0]
+ W.resize_(5)
- W.resize_(2)
= dtype of a global tensor
W = torch.ones(2)
? W.dtype is torch.float64
+ W.data = W.data.double()
- W.data = W.data.float()
= data of a global tensor
W = torch.tensor(2.0)
? W
+ W.mul_(3)
- W.div_(3)
= a global tensor
W = torch.tensor(2.0)
? W
+ global W; W = torch.tensor(5.0)
- global W; W = torch.tensor(2.0)
= a tensor's attribute
W = torch.ones(2)
W.scale = 2
? W.scale
+ W.scale = 5
- W.scale = 2
= version of a global tensor
W = torch.ones(2)
BASE = 0
? W._version - BASE
+ W.mul_(1)
- global BASE; BASE = W._version
= a gradient of a global tensor
W = torch.ones(2, requires_grad=True)
? W.grad is None
+ W.grad = torch.ones(2)
- W.grad = None
= a buffer
MODEL = torch.nn.BatchNorm1d(2)
? MODEL.running_mean.sum()
+ MODEL.running_mean.add_(2)
- MODEL.running_mean.zero_()
"""


class State(NamedTuple):
    definitions: str
    read: str
    change: str
    back: str


def _parsed(text: str) -> State:
    """Parses a state, without its title."""
    lines = text.splitlines()[1:]
    read, change, back = (each[2:] for each in lines[-3:])
    return State("\n".join(lines[:-3]), read, change, back)


STATES = {each.partition("\n")[0]: _parsed(each) for each in _STATES.strip().removeprefix("= ").split("\n= ")}
"""What is read besides tensors."""
