"""torch's kinds of values and its functions.

Rooms, lowest first: `contexts`, `tensors`, `higher_order`, `autograd`, `modules`, `functions`, `subclasses`.
May import: `core`, `python`, `polyfills`.
"""
