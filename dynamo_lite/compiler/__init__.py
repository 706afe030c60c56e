"""From a frame that missed to a guarded entry: is this frame ours? translate, generate, compile, install.

Enters: a view of a frame for which no entry of its owner holds (`FrameCompiler` is the hook's callback).
Leaves: a guard tree and the new code object, or the answer that the frame runs as it is.
May import: every room but `export` and the public names.
"""
