"""All kinds of values and models of callables: importing this registers them."""

from . import (
    builtins,
    constant,
    construct,
    context,
    exception,
    function,
    iterator,
    mapping,
    nn_module,
    sequence,
    tensor,
    torch_api,
    user_object,
)

ALL = (
    *(builtins, constant, construct, context, exception, function, iterator, mapping),
    *(nn_module, sequence, tensor, torch_api, user_object),
)
