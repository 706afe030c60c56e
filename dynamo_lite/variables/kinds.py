"""All kinds of values and models of callables: importing this registers them."""

from . import (
    builtins,
    c_callable,
    constant,
    construct,
    context,
    exception,
    function,
    identity,
    iterator,
    library,
    mapping,
    nn_module,
    sequence,
    tensor,
    torch_api,
    user_object,
)

ALL = (
    *(builtins, c_callable, constant, construct, context, exception, function, identity, iterator, library),
    *(mapping, nn_module, sequence, tensor, torch_api, user_object),
)
