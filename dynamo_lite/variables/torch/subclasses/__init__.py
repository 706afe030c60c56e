"""Tensors made of inner tensors (``__torch_dispatch__``), and torch function modes."""
