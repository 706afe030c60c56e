"""numpy's arrays as tensors of the graph, whose operations are those of ``torch._numpy``.

Registered by `kinds` where numpy is installed.
May import: `core`, `python`, `torch`, `polyfills`.
"""
