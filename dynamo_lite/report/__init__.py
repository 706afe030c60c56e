"""`dl.report`: what was captured, as a page in HTML and a trace for Perfetto.

What enters are the plain records of `insight.recorder`; what leaves are two files. It imports nothing of the compiler,
which writes the records.
"""
