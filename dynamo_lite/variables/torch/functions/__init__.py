"""torch's functions: which are recorded as operators, modelled, or refused; ``__torch_function__``."""
