"""From a frame for which no guards held to a guarded entry: check the frame, translate, compile, install.

Enters: a view of a frame for which no entry of its owner holds (`FrameCompiler` is the hook's callback).
Leaves: a guard tree and the new code object, or the verdict that the frame runs in eager.
May import: every room but `export` and the public names.
"""
