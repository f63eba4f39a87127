#!/usr/bin/python3 -I
"""Slurm's Prolog, before a job, on each of its nodes: exit 1 on a node that must not have it.

A fault of ours is no fault of the node's: whatever goes wrong in here itself, the job starts.
"""
