"""Measurements: `make bench BENCH=field`. Not shipped.

A figure of one machine says little. So each is taken beside something plain doing the same in the same run (the bare library, a
thirty-line script, a write to the same disk), and what counts is the ratio.
"""
