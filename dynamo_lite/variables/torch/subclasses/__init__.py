"""Wrapper subclasses: tensors made of inner tensors, by ``__tensor_flatten__`` and ``__torch_dispatch__``."""
