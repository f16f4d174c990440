"""The parts of benchmarks/quality.py: what is run, in which order, and what is made of the figures."""
