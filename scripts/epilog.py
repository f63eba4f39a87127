#!/usr/bin/python3 -I
"""Slurm's Epilog, after a job, on each of its nodes: drains what is unfit, exits 0.

A fault of ours is no fault of the node's: whatever goes wrong in here itself, the job starts.
"""
