"""numpy's arrays as tensors of the graph, with the operations of ``torch._numpy``.

Imported by `kinds` where numpy is installed.
May import: `core`, `python`, `torch`, `polyfills`.
"""
