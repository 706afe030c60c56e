"""``nn.Module`` instances, their backward hooks, and lazy modules, whose first call breaks."""
