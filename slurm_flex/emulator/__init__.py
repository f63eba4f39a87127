"""Compute Engine on loopback: managed instance groups, resize requests, instances, operations.

``core`` holds the world and its rules, pure and driven by a clock that is passed in; ``web`` is
the thin HTTP in front of it; ``drivers`` say what a running VM is: a record, or a real slurmd.
"""
