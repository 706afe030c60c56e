"""A module of settings, as programs keep them, for programs that read it as a dict."""

SCALE = 2.5
WIDTH = 3
lower = "not a setting"
