"""Many streams and many names: what they cost beside one stream and few names.

All of it drives a lane as the flow makes it, decode and learn, with no broker: see `lane`. The parts are benchmarks of
their own: `python -m benchmarks streams` runs all, `python -m benchmarks streams.many` one.
"""
